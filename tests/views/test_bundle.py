"""Modules of the page joined into one file."""

import pytest

from explorer.views.bundle import ModuleError, bundle


def joined(**modules: str) -> str:
    return bundle("main.js", {f"{name}.js": text for name, text in modules.items()}.__getitem__)


def test_a_module_becomes_a_function_that_returns_its_exports():
    names = "const PREFIX = 1;\nexport const NAME = 2;\nexport async function load() {}\n"
    main = 'import {NAME, load as fetch} from "./names.js";\n\nexport default {NAME};\n'
    assert (
        joined(names=names, main=main)
        == """const $names = (() => {
const PREFIX = 1;
const NAME = 2;
async function load() {}
return {NAME, load};
})();

const {NAME, load: fetch} = $names;

export default {NAME};
"""
    )


def test_every_module_stands_once_and_after_what_it_imports():
    text = joined(
        first="export const A = 1;\n",
        second='import {A} from "./first.js";\nexport const B = A;\n',
        main='import {B} from "./second.js";\nimport {\n  A,\n} from "./first.js";\nuse(A, B);\n',
    )
    assert text.count("const $first = ") == 1
    assert text.index("const $first") < text.index("const $second") < text.index("use(A, B)")


def test_two_modules_may_have_a_name_each_for_themselves():
    text = joined(
        one="const LIMIT = 1;\nexport const one = () => LIMIT;\n",
        two="const LIMIT = 2;\nexport const two = () => LIMIT;\n",
        main='import {one} from "./one.js";\nimport {two} from "./two.js";\nuse(one, two);\n',
    )
    assert text.count("const LIMIT") == 2 and text.count("(() => {") == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('import {B} from "./other.js";', "main.js: other.js exports no B"),
        ('import everything from "./other.js";', "what is `import everything"),
        ('import * as other from "./other.js";', "what is `import \\* as other"),
        ("export let count = 0;", "what is `export let count"),
        ('export * from "./other.js";', "what is `export \\*"),
        ('import {D} from "./back.js";', "main.js -> back.js -> main.js"),
        ('import {A} from "./other.js";\nimport {C} from "./in/other.js";', "get one name"),
    ],
)
def test_what_the_bundler_does_not_understand_is_refused(line: str, said: str):
    modules = {
        "main.js": f"{line}\n",
        "other.js": "export const A = 1;\n",
        "in/other.js": "export const C = 1;\n",
        "back.js": 'import {A} from "./main.js";\nexport const D = A;\n',
    }
    with pytest.raises(ModuleError, match=said):
        bundle("main.js", modules.__getitem__)
