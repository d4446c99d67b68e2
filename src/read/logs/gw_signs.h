/* The signs: the meanings that a line of text can have (signs.def). */
#ifndef GW_SIGNS_H
#define GW_SIGNS_H

typedef enum gw_sign_kind {
    GW_SIGN_FAULT,
    GW_SIGN_STATUS,
    GW_SIGN_END,
    GW_SIGN_CONTEXT,
    GW_SIGN_TRACE,
    GW_SIGN_NOISE,
    GW_SIGN_NEAR
} gw_sign_kind;

typedef enum gw_sign {
#define GWI_SIGN(name, kind, pattern) GW_SAYS_##name,
#include "signs.def"
#undef GWI_SIGN
    GW_SIGN_COUNT
} gw_sign;

/* Return the kind of a sign, as defined in signs.def. */
gw_sign_kind gw_sign_kind_of(gw_sign sign);

#endif
