/* Filling error records. Nothing here allocates. */
#ifndef TRP_BASE_ERROR_H
#define TRP_BASE_ERROR_H

#include <troupe/status.h>

/* Fills `error` (if not NULL) with status and message, all else zero; returns status. */
trp_status trp__error_set(trp_error *error, trp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with the code of a library: domain "cublas", "cuda", "errno", ... */
trp_status trp__error_set_code(trp_error *error, trp_status status, const char *domain, int code,
                               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Sets TRP_E_SYSTEM (TRP_E_MEMORY for ENOMEM) with the message "what: strerror" for errno. */
trp_status trp__error_set_errno(trp_error *error, const char *what);

/* Makes a copy of `error` this thread's last error; returns its status. */
trp_status trp__error_raise(const trp_error *error);

/* Returns this thread's last error, as trp_error_last() does for the program. */
const trp_error *trp__error_last(void);

/* Calls trp__error_set() for this thread's last error. */
trp_status trp__fail(trp_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fails because the argument `name` is NULL. */
trp_status trp__fail_null(const char *name);

/* Copies a string into a fixed array, cut and terminated. */
void trp__copy_string(char *to, size_t size, const char *from);

#endif
