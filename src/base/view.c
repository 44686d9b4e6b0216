#include "base/view.h"

#include "base/error.h"

#define FAIL(...) trp__error_set(error, TRP_E_ARGUMENT, __VA_ARGS__)

enum { RANK = TRP__VIEW_RANK };

#define SPAN_MAX (TRP__VIEW_ELEMENTS - 1)

trp_status trp__view_set_dims(trp__view *view, const int64_t dim[RANK], trp_error *error)
{
    for (int i = 0; i < RANK; i++) {
        const int64_t most = i < view->rank ? SPAN_MAX : 0;
        if (dim[i] < 0 || dim[i] > most)
            return FAIL("%s.dim[%d]: expected 0 to %lld, got %lld", view->name, i, (long long)most,
                        (long long)dim[i]);
        view->dim[i] = dim[i];
    }
    return TRP_OK;
}

static trp_status set_strides(trp__view *view, const int64_t stride[RANK], trp_error *error)
{
    bool packed = true;
    int64_t next = 1;
    for (int i = 0; i < RANK; i++) {
        const int64_t most = i < view->rank ? SPAN_MAX : 0;
        if (stride[i] > most || stride[i] < -most)
            return FAIL("%s.stride[%d]: expected %lld to %lld, got %lld", view->name, i,
                        (long long)-most, (long long)most, (long long)stride[i]);
        view->stride[i] = stride[i];
        packed = packed && stride[i] == 0;
    }
    for (int i = view->rank - 1; i >= 0 && packed; i--) {
        view->stride[i] = next;
        if (view->dim[i] > 1 &&
            (__builtin_mul_overflow(next, view->dim[i], &next) || next > SPAN_MAX))
            return FAIL("%s.dim: expected less than 2^48 elements", view->name);
    }
    return TRP_OK;
}

static trp_status measure(trp__view *view, trp_error *error)
{
    int64_t before = 0, behind = 0;
    view->elements = 1;
    for (int i = 0; i < view->rank; i++) {
        int64_t reach;
        const int64_t dim = view->dim[i] ? view->dim[i] : 1;
        if (__builtin_mul_overflow(view->elements, dim, &view->elements) ||
            view->elements > SPAN_MAX || __builtin_mul_overflow(dim - 1, view->stride[i], &reach) ||
            reach > SPAN_MAX || reach < -SPAN_MAX)
            return FAIL("%s.dim: expected less than 2^48 elements, and not further apart",
                        view->name);
        behind += reach > 0 ? reach : 0;
        before -= reach < 0 ? reach : 0;
    }
    for (int i = 0; i < view->rank; i++)
        view->elements = view->dim[i] ? view->elements : 0;
    view->before = before * view->size;
    view->span = view->elements ? (before + behind + 1) * view->size : 0;
    return TRP_OK;
}

trp_status trp__view_set_strides(trp__view *view, const int64_t stride[RANK], trp_error *error)
{
    trp_status status = set_strides(view, stride, error);
    if (status == TRP_OK)
        status = measure(view, error);
    if (status != TRP_OK)
        return status;
    if (view->offset % (uint64_t)view->size != 0)
        return FAIL("%s.offset: expected a multiple of %lld, got %llu", view->name,
                    (long long)view->size, (unsigned long long)view->offset);
    if (view->offset < (uint64_t)view->before)
        return FAIL("%s.offset: expected at least %lld, for there are negative strides, got %llu",
                    view->name, (long long)view->before, (unsigned long long)view->offset);
    return TRP_OK;
}

trp__strided trp__view_strided(const trp__view *view)
{
    trp__strided s = {.rank = view->rank, .size = view->size};
    for (int i = 0; i < view->rank; i++) {
        s.dim[i] = view->dim[i];
        s.stride[i] = (view->stride[i] < 0 ? -view->stride[i] : view->stride[i]) * view->size;
    }
    return s;
}

trp_status trp__view_check_apart(const trp__view *view, trp_error *error)
{
    const trp__strided s = trp__view_strided(view);
    const trp__overlap found = trp__overlap_within(&s);
    if (found == TRP__OVERLAP_NONE)
        return TRP_OK;
    return FAIL("%s.stride: expected strides that put no two elements of %s at one place%s",
                view->name, view->name,
                found == TRP__OVERLAP_UNKNOWN ? "; these are too irregular to tell" : "");
}
