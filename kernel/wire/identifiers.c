#include "wire/wire.h"

#include <sodium.h>
#include <stdio.h>
#include <time.h>

void cadre_uuid(char uuid[CADRE_UUID_SIZE])
{
    unsigned char r[16];
    char hex[33];
    randombytes_buf(r, sizeof r);
    r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
    r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
    sodium_bin2hex(hex, sizeof hex, r, sizeof r);
    snprintf(uuid, CADRE_UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
             hex + 20);
}

void cadre_date_now(char date[CADRE_DATE_SIZE])
{
    struct timespec now;
    struct tm utc;
    char seconds[20] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(date, CADRE_DATE_SIZE, "%.19s.%06uZ", seconds,
             (unsigned)(now.tv_nsec / 1000) % 1000000u);
}
