/* <cadre.h>: the Cadre training runtime, everything that a cell or a C program may use.
 *
 *     cadre_table *flights = cadre_read_csv("flights.csv");
 *     cadre_slices *slices = cadre_slices_by(flights, "carrier", "origin");
 *     cadre_report *report = cadre_loop(slices, (cadre_loop_options){
 *         .train = train, .is_multiple_processors = true, .cpu_count = 2, .models = "models"});
 *
 * As in GSL, an error ends the cell (a program: the process) with a message by default; a program
 * can set a handler and get NULL or a negative status instead: see base/error_handler.h.
 */
#ifndef CADRE_H
#define CADRE_H

#include "base/base.h"
#include "base/error_handler.h"
#include "base/interrupt.h"
#include "cpu/cpu.h"
#include "data/data.h"
#include "loop/loop.h"
#include "model/model.h"
#include "notebook/json.h"
#include "notebook/notebook.h"
#include "show/comm.h"
#include "show/show.h"
#include "store/store.h"

#endif
