complete -c warmline-check-aof -l truncate-to-timestamp -d 'Cut off what was done after this time (aof-timestamp-enabled)' -r
complete -c warmline-check-aof -s v -l version -d 'Print the version'
complete -c warmline-check-aof -l fix -d 'Cut off what is not whole, after asking'
