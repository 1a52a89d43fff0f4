#!/bin/sh
# Stands for a program in unit tests: runs the script `nft` beside the link that it was called by. A file that is part of
# the source, since one that a test writes cannot be executed while another thread's child still has it open for writing.
exec sh "${0%/*}/nft" "$@"
