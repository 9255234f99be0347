complete -c warmline-check-rdb -l format -d 'How statistics are printed' -r -f -a "table\t''
info\t''
csv\t''"
complete -c warmline-check-rdb -l output -d 'File to print to' -r -F
complete -c warmline-check-rdb -s v -l version -d 'Print the version'
complete -c warmline-check-rdb -l stats -d 'Count keys, by type and size'
