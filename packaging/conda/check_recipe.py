"""Parse the conda recipe: check_recipe.py VERSION. Needs jinja2 and PyYAML."""
import os
import sys

import jinja2
import yaml

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "meta.yaml"), encoding="utf-8") as file:
    text = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(file.read()).render(
        compiler=lambda language: f"{language}_linux-64")
recipe = yaml.safe_load(text)
assert str(recipe["package"]["version"]) == sys.argv[1], f"meta.yaml has version {recipe['package']['version']}"
assert set(recipe) == {"package", "source", "build", "requirements", "test", "about"}, sorted(recipe)
assert recipe["about"]["license"] == "Apache-2.0"
for line in recipe["build"]["script"]:
    assert isinstance(line, str), line
print(f"{len(recipe['requirements']['host'])} requirements")
