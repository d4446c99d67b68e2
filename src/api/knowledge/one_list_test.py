"""The results of CUDA are listed once, in cuda_errors.tsv: no source file may keep numbers with names or texts of its
own, or numbers of sticky results. Argument: the source tree."""
import pathlib
import re
import sys

FOLDERS = ("src", "virtual-gpu", "libgpuscope/src", "libgpuscope/include", "include")
TEXTS_MAX, STICKY_MAX = 3, 5  # more texts in one file, or numbers in one function or table, are a list
NAME = r"CUDA_ERROR_[A-Z_]+|cudaError[A-Z]\w+"
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def read_table(path):
    lines = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def is_of_a_test(path):
    return bool(re.search(r"_test\.[ch]$|_testlib\.|/testing/|/test_|/examples\.def$", path.as_posix()))


def split(source):
    """Code with empty strings and no comments; code with its strings; all strings, neighbours joined."""
    bare = TOKEN.sub(lambda m: '""' if m[0][0] == '"' else " ", source)
    whole = TOKEN.sub(lambda m: m[0] if m[0][0] == '"' else " ", source)
    strings = re.sub(r'"\s*"', "", whole)
    return bare, whole, "\n".join(m[0] for m in TOKEN.finditer(strings))


def complaints(source, codes, texts, sticky):
    bare, whole, strings = split(source)
    for after, name, before in re.findall(rf'(?:\b(\d+)\s*,\s*)?"?\b({NAME})\b"?(?:\s*[,=]\s*(\d+))?', whole):
        if codes.get(name, "?") in (after, before):
            yield f"a result's name beside its number: {name}"
    held = [text for text in texts if text in strings]
    if len(held) > TEXTS_MAX:
        yield f"a list of results' texts: {', '.join(held)}"
    for part in re.split(r"^}", bare, flags=re.M):
        numbers = sticky & set(re.findall(r"(?<![\w.])\d{3}(?![\w.])", part))
        if len(numbers) > STICKY_MAX:
            yield f"a list of sticky results: {', '.join(sorted(numbers))}"


def check_itself(codes, texts, sticky):
    wrong = ['X(CUDA_ERROR_NOT_READY, 600)', '{600, "CUDA_ERROR_NOT_READY"}', "enum { CUDA_ERROR_NOT_READY = 600 };",
             "".join(f'{{1, "{text}"}},' for text in texts[:4]), "|".join(f'"{text}" ' for text in texts[:4]),
             "".join(f"case {number}: " for number in sorted(sticky)[:6])]
    right = ["/* CUDA_ERROR_NOT_READY, 600 */", "return CUDA_ERROR_NOT_READY;", f'"{" ".join(sorted(sticky))}"']
    return [w for w in wrong if not list(complaints(w, codes, texts, sticky))] + \
           [r for r in right if list(complaints(r, codes, texts, sticky))]


def main(root):
    rows = read_table(next(root.glob("**/cuda_errors.tsv")))
    codes = {row[name]: row["code"] for row in rows for name in ("driver_name", "runtime_name") if row[name] != "-"}
    # "out of memory" is everybody's.
    texts = [row["text"].rstrip(".") for row in rows if row["text"].count(" ") >= 2 and row["code"] != "2"]
    sticky = {row["code"] for row in rows if row["sticky"] in ("yes", "practice")}
    failures = [f"this check is broken: {line}" for line in check_itself(codes, texts, sticky)]
    failures += [f"no folder {folder}" for folder in FOLDERS if not (root / folder).is_dir()]
    files = [path for folder in FOLDERS for path in (root / folder).rglob("*.*")
             if path.suffix in (".c", ".h", ".def") and not is_of_a_test(path)]
    for path in files:
        failures += [f"{path}: {line}" for line in complaints(path.read_text(), codes, texts, sticky)]
    print("\n".join(failures) or f"{len(rows)} results, {len(texts)} texts, {len(sticky)} sticky; {len(files)} files")
    return 1 if failures else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
