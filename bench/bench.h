/* The benchmarks behind `troupe bench`. */
#ifndef TRP_BENCH_BENCH_H
#define TRP_BENCH_BENCH_H

/* Runs the benchmark that argv[1] names; argv[0] is "bench". Returns an exit status: 0 measured, 1
 * something could not be measured, 2 wrong usage. A bound that is missed is no failure. */
int trp_bench_main(int argc, char **argv);

#endif
