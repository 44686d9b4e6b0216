#include "base/os/service_thread.h"

_Thread_local bool trp__is_service_thread;
