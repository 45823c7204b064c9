// The functions of the driver that the programs call, from the library that is loaded already.
#pragma once
#include <dlfcn.h>

#include "abi.h"

static inline void* driver_function(const char* name) {
    static void* driver;
    if (!driver) driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* function = driver ? dlsym(driver, name) : NULL;
    if (!function) fprintf(stderr, "the driver has no %s: %s\n", name, dlerror()), exit(1);
    return function;
}
// Calls one that gives a status.
#define CU(name, ...) ((int (*)())driver_function(#name))(__VA_ARGS__)
