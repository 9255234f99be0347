# Makes warmline@.service of warmline.service: warmline@NAME has /etc/warmline/NAME.conf and /var/lib/warmline/NAME.
s|^Description=.*|& (%i)|
s|/etc/warmline/warmline\.conf|/etc/warmline/%i.conf|
s|^ExecStart=.*|& --dir /var/lib/warmline/%i|
s|^StateDirectory=warmline$|&/%i|
s|^RuntimeDirectory=warmline$|&-%i|
s|^WorkingDirectory=.*|&/%i|
