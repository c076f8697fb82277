// Functions in double precision, and the distance of floats from them: see function_errors.py.

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x * sigmoid(x); }
static double gelu(double x) { return x * (erfc(-x * M_SQRT1_2) / 2); }
static double gelu_tanh(double x) { return x * sigmoid(sqrt(8 / M_PI) * (x + 0.044715 * x * x * x)); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double mish(double x) { return x * tanh(x > 50 ? x : log1p(exp(x))); }
static double elu(double x) { return x >= 0 ? x : expm1(x); }
static double selu(double x)
{
    const double alpha = 1.67326319217681884765625, gamma = 1.05070102214813232421875;
    return gamma * (x >= 0 ? x : alpha * expm1(x));
}
static double softsign(double x) { return x / (1 + fabs(x)); }
static double hard_sigmoid(double x) { return x != x ? x : fmin(fmax(0.2f * x + 0.5, 0), 1); }
static double hard_swish(double x) { return x * (x != x ? x : fmin(fmax(x / 6 + 0.5, 0), 1)); }
static double reciprocal(double x) { return 1 / x; }

static const struct {
    const char *name;
    double (*function)(double);
} functions[] = {
    {"Acos", acos}, {"Acosh", acosh}, {"Asin", asin}, {"Asinh", asinh}, {"Atan", atan},
    {"Atanh", atanh}, {"Celu", elu}, {"Cos", cos}, {"Cosh", cosh}, {"Elu", elu}, {"Erf", erf},
    {"Exp", exp}, {"Gelu", gelu}, {"Gelu tanh", gelu_tanh}, {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish}, {"Log", log}, {"Mish", mish}, {"Reciprocal", reciprocal},
    {"Selu", selu}, {"Sigmoid", sigmoid}, {"Sin", sin}, {"Sinh", sinh}, {"Softplus", softplus},
    {"Softsign", softsign}, {"Sqrt", sqrt}, {"Swish", silu}, {"Tan", tan}, {"Tanh", tanh},
};

// Fills `exact` with function(x); 1 if there is no function of that name.
int evaluate(const char *name, const float *x, double *exact, long count)
{
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        if (!strcmp(functions[f].name, name)) {
            for (long i = 0; i < count; i++)
                exact[i] = functions[f].function(x[i]);
            return 0;
        }
    return 1;
}

struct Distance {
    double units;       // largest error in units of the last place of the exact result
    double tiny_units;  // the same where the exact result is below TINY
    uint64_t wrong;     // a NaN on one side only, or an infinity where a number belongs
    float at, tiny_at, wrong_at;
};

// Below, factors of a result that is no denormal number may be one, with the few digits they have.
#define TINY (128 * FLT_MIN)

// The distance between neighbouring floats at `exact`.
static double unit(double exact)
{
    int exponent;
    frexp(exact, &exponent);
    return ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

void compare(const float *x, const float *y, const double *exact, long count, struct Distance *d)
{
    for (long i = 0; i < count; i++) {
        double e = exact[i], found = y[i];
        if (e == found || (e != e && found != found))
            continue;
        if (fabs(e) > FLT_MAX && isinf(found) && (e > 0) == (found > 0))
            continue;
        const int is_wrong = e != e || found != found || isinf(e)
            || (isinf(found) && fabs(e) < FLT_MAX * (1 - 1e-6));
        if (is_wrong) {
            if (!d->wrong++)
                d->wrong_at = x[i];
            continue;
        }
        if (isinf(found))
            found = copysign(ldexp(1, 128), found);  // the next one behind the greatest float
        const double units = fabs(found - e) / unit(e);
        if (fabs(e) < TINY && units > d->tiny_units) {
            d->tiny_units = units;
            d->tiny_at = x[i];
        }
        if (fabs(e) >= TINY && units > d->units) {
            d->units = units;
            d->at = x[i];
        }
    }
}
