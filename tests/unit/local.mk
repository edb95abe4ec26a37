# tests/unit: one suite per folder, and what else a release holds
include tests/local.mk
include tests/fuzz/local.mk
include tests/unit/wire.mk
include tests/unit/compile.mk
include tests/unit/cli.mk
include tests/unit/load.mk
include tests/unit/session.mk
include tests/unit/show.mk
include tests/unit/loop.mk
include tests/unit/host.mk
include tests/unit/data.mk
include tests/unit/notebook.mk
include tests/unit/cell.mk
include tests/unit/assist.mk
