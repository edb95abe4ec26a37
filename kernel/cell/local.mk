# kernel/cell
