# kernel.json and the logos, for $(datadir)/jupyter/kernels/cadre.
kernelspecdir = $(datadir)/jupyter/kernels/cadre
nodist_kernelspec_DATA = kernelspec/kernel.json
dist_kernelspec_DATA = kernelspec/logo-32x32.png kernelspec/logo-64x64.png kernelspec/logo-svg.svg
EXTRA_DIST += kernelspec/kernel.json.in kernelspec/requirements.txt
CLEANFILES += kernelspec/kernel.json

kernelspec/kernel.json: $(srcdir)/kernelspec/kernel.json.in Makefile
	$(AM_V_GEN)$(MKDIR_P) kernelspec && sed 's|@bindir[@]|$(bindir)|g' \
	    $(srcdir)/kernelspec/kernel.json.in >$@.new && mv $@.new $@
