// Median nanoseconds of a run of the package `net`. Its inputs come from a file, one after another.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net.h"

#define SAMPLES 101
#define SAMPLE_NANOSECONDS 200000.0

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void run(const struct net *model, unsigned char **inputs)
{
    for (int i = 0; i < NET_INPUTS; i++)  // a run overwrites its inputs
        memcpy(net_input(model, i), inputs[i], net_inputs[i].size_bytes);
    net_run(model);
}

int main(int count, char **words)
{
    struct net model;
    unsigned char *inputs[NET_INPUTS + 1];
    static double samples[SAMPLES];
    FILE *file = count > 1 ? fopen(words[1], "rb") : NULL;
    if (file == NULL || net_init(&model, NULL, 0) != NET_OK)
        return 1;
    for (int i = 0; i < NET_INPUTS; i++) {
        inputs[i] = malloc(net_inputs[i].size_bytes + 1);
        if (fread(inputs[i], 1, net_inputs[i].size_bytes, file) != net_inputs[i].size_bytes)
            return 1;
    }
    run(&model, inputs);
    double began = now();
    run(&model, inputs);
    const int runs = 1 + (int)(SAMPLE_NANOSECONDS / (now() - began));
    for (int sample = 0; sample < SAMPLES; sample++) {
        began = now();
        for (int i = 0; i < runs; i++)
            run(&model, inputs);
        samples[sample] = (now() - began) / runs;
    }
    qsort(samples, SAMPLES, sizeof samples[0], compare);
    printf("%.1f\n", samples[SAMPLES / 2]);
    return 0;
}
