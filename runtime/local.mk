# libcadre and its headers: installed as $(includedir)/cadre/{cadre.h,data/data.h,...};
# cadre.pc adds -I$(includedir)/cadre, so that programs write #include <cadre.h>.
cadreincludedir = $(includedir)/cadre
nobase_cadreinclude_HEADERS =
