/* The sender's side of matmul: bias, activation, aux and gradients. */
#include "actors/matmul/encode.h"

static const char *const activation_names[] = {"none", "relu", "gelu", "silu", "drelu", "dgelu"};

static bool has_aux(trp_activation activation)
{
    return activation != TRP_ACTIVATION_NONE && activation != TRP_ACTIVATION_SILU;
}

static trp_status check_aux(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    const char *name = activation_names[r->activation];
    if (r->aux.buffer.id && !has_aux(r->activation))
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "aux.buffer: expected none with activation %s, got one", name);
    if (!r->aux.buffer.id && trp__is_gradient(r->activation))
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "aux.buffer: expected one with activation %s, got none", name);
    if (!r->aux.buffer.id)
        return TRP_OK;
    if (trp__aux_is_bits(r->activation) && r->aux.type != TRP_DTYPE_NONE)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "aux.type: expected none with activation %s, whose aux is bits, got "
                              "%s (%d)",
                              name, trp_dtype_name(r->aux.type), (int)r->aux.type);
    return TRP_OK;
}

static trp_status check_gradient(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    bool wanted = r->gradient_of != TRP_BIAS_GRADIENT_NONE;
    if (wanted != (r->gradient.buffer.id != 0))
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "gradient.buffer: expected %s gradient_of, got %s",
                              wanted ? "one with a" : "none without a", wanted ? "none" : "one");
    if (wanted && (r->gradient_of == TRP_BIAS_GRADIENT_D) != trp__is_gradient(r->activation))
        return TRP__UNSUPPORTED(m, "gradient_of: %s together with activation %s",
                                r->gradient_of == TRP_BIAS_GRADIENT_D ? "TRP_BIAS_GRADIENT_D"
                                                                      : "that of an input",
                                activation_names[r->activation]);
    if (wanted && !trp__is_gradient(r->activation) && r->activation != TRP_ACTIVATION_NONE)
        return TRP__UNSUPPORTED(m, "gradient_of: that of an input together with activation %s",
                                activation_names[r->activation]);
    if (wanted && !trp__is_gradient(r->activation) && trp_dtype_bits(r->a.type) < 16)
        return TRP__UNSUPPORTED(m, "gradient_of: that of an input of type %s",
                                trp_dtype_name(r->a.type));
    if (r->bias.buffer.id && (wanted || trp__is_gradient(r->activation)))
        return TRP__UNSUPPORTED(m, "bias.buffer: a bias together with %s",
                                wanted ? "gradient_of" : "the gradient of an activation");
    m->g.gradient = (uint8_t)r->gradient_of;
    if (m->swap && r->gradient_of == TRP_BIAS_GRADIENT_A)
        m->g.gradient = TRP_BIAS_GRADIENT_B;
    if (m->swap && r->gradient_of == TRP_BIAS_GRADIENT_B)
        m->g.gradient = TRP_BIAS_GRADIENT_A;
    return TRP_OK;
}

static trp_status set_vector_type(trp__matmul_encoding *m, const char *name,
                                  const trp_matmul_vector *v, const trp__type_row *row)
{
    if (row->vector == TRP_DTYPE_NONE)
        return TRP__UNSUPPORTED(m, "%s.buffer: where D is %s", name, trp_dtype_name(row->d));
    if (v->type != TRP_DTYPE_NONE && v->type != row->vector)
        return trp__error_set(
            m->encoder->error, TRP_E_ARGUMENT,
            "%s.type: expected %s for these types of inputs, C and D, got %s (%d)", name,
            trp_dtype_name(row->vector), trp_dtype_name(v->type), (int)v->type);
    m->g.vector_type = (uint8_t)row->vector;
    return TRP_OK;
}

static trp_status set_aux_type(trp__matmul_encoding *m, const trp__type_row *row)
{
    const trp_matmul_request *r = m->r;
    if (!r->aux.buffer.id || trp__aux_is_bits(r->activation))
        return TRP_OK;
    trp_dtype type = r->aux.type ? r->aux.type : row->d;
    if (type != row->d && !(trp__is_fp8(row->d) && type == row->vector))
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "aux.type: expected %s%s%s, got %s (%d)", trp_dtype_name(row->d),
                              trp__is_fp8(row->d) ? " or " : "",
                              trp__is_fp8(row->d) ? trp_dtype_name(row->vector) : "",
                              trp_dtype_name(type), (int)type);
    m->g.type[TRP__MATMUL_AUX] = (uint8_t)type;
    return TRP_OK;
}

trp_status trp__matmul_check_epilogue(trp__matmul_encoding *m, const trp__type_row *row)
{
    const trp_matmul_request *r = m->r;
    trp_status status = TRP_OK;
    if (row->vector == TRP_DTYPE_NONE && r->activation != TRP_ACTIVATION_NONE)
        return TRP__UNSUPPORTED(m, "activation: %s where D is %s", activation_names[r->activation],
                                trp_dtype_name(row->d));
    if (r->aux.buffer.id && (row->d == TRP_I8 || row->d == TRP_F4E2M1))
        return TRP__UNSUPPORTED(m, "aux.buffer: where D is %s", trp_dtype_name(row->d));
    if (r->activation == TRP_ACTIVATION_SILU && m->encoder->backend == TRP_BACKEND_CUDA)
        return TRP__UNSUPPORTED(m, "activation: silu, which cuBLASLt does not have");
    m->g.activation = (uint8_t)r->activation;
    status = check_aux(m);
    if (status == TRP_OK)
        status = check_gradient(m);
    if (status == TRP_OK && r->bias.buffer.id)
        status = set_vector_type(m, "bias", &r->bias, row);
    if (status == TRP_OK && r->gradient_of != TRP_BIAS_GRADIENT_NONE)
        status = set_vector_type(m, "gradient", &r->gradient, row);
    return status == TRP_OK ? set_aux_type(m, row) : status;
}
