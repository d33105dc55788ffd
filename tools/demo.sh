#!/bin/sh
# The lectures' example with what ships: a translation, and for each word where it came from. Needs no network.
set -eu
bin=$1

set -- "I love coffee." "Where did you put my black shoes?" "My brother has never seen such a big house." \
    "The old man was reading a book under a big tree."
printf '$ %s/regard show translate-en-es' "$bin"
printf " '%s'" "$@"
printf ' --out demo.html\n\n'
"$bin/regard" show translate-en-es "$@" --out demo.html

cat <<END

demo.html shows the same word by word, with the other answers that the search considered: open it in a browser.

Try next:
  $bin/regard explore                                      all models in your browser: ask, and see where they look
  $bin/regard predict translate-en-es                      type English, read Spanish
  $bin/regard show translate-en-es-rnn 'I love coffee.'    the same by a recurrent network with additive attention
  $bin/regard list                                         every mechanism with its equation, every system, every recipe
  $bin/python examples/weather_stations.py                 attention in one picture, with nothing to train
  $bin/regard train --help                                 your own translator from two text files
END
