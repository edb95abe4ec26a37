# kernel/wire
