# What a release archive holds: whole folders, so that nothing is missing because a list forgot it.
EXTRA_DIST += bootstrap demo LICENSE CHANGELOG.md CONTRIBUTING.md .clang-format .clang-tidy .ci \
    docs kernel kernelspec notebooks runtime tests

# `check` is a target of this makefile too, so it cannot stand in the list; and what a build in
# the source folder leaves is no source.
dist-hook:
	cp $(srcdir)/check $(distdir)/
	find $(distdir) \( -name __pycache__ -o -name .ipynb_checkpoints -o -name .libs \
	    -o -name .deps \) -prune -exec rm -rf {} +
	find $(distdir) \( -name '*.o' -o -name '*.lo' -o -name '*.la' -o -name '*.log' \
	    -o -name '*.trs' -o -name .dirstamp \) -exec rm -f {} +
