# Record the start of a program that does not do it itself, in the form of train.py: started.sh program [arguments]
how=run
[ -z "${GPUWHY_REHEARSE+set}" ] || how=rehearsal
{
    printf '%s\037%s' $how $$
    printf '\037%s' -- "$@"
    printf '\n'
} >>"$RESCUE_STARTS"
exec "$@"
