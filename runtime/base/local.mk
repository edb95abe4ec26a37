noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = runtime/base/base.h runtime/base/base.c runtime/base/text.h \
    runtime/base/text.c runtime/base/user_folder.h runtime/base/user_folder.c
