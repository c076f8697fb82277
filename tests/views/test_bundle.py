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


def test_imports_are_relative_to_the_file_that_has_them():
    modules = {
        "main.js": 'import {SIDE} from "./graph/scene.js";\nuse(SIDE);\n',
        "graph/scene.js": 'import {A} from "../dom.js";\nimport {B} from "./dom.js";\n'
        "export const SIDE = A + B;\n",
        "graph/dom.js": "export const B = 2;\n",
        "dom.js": "export const A = 1;\n",
    }
    text = bundle("main.js", modules.__getitem__)
    assert "const {A} = $dom;" in text and "const {B} = $graph_dom;" in text


def test_comments_and_indentation_stay_in_the_files():
    main = "// What it does.\n/** @type {\n * any\n } */\nif (a) {\n  b(`// c`); // d\n}\n"
    assert joined(main=main) == "if (a) {\nb(`// c`); // d\n}\n"


def test_a_comment_before_code_takes_no_code_with_it():
    main = "/** @type {any} */ (a).b();\nc();\n/** d */\n"
    assert joined(main=main) == "/** @type {any} */ (a).b();\nc();\n"


def test_a_template_of_several_lines_is_kept_as_it_is():
    main = "const TEXT = `\n  // no comment\n`;\n"
    assert joined(main=main) == main


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('import {B} from "./other.js";', "main.js: other.js exports no B"),
        ('import everything from "./other.js";', "what is `import everything"),
        ('import * as other from "./other.js";', "what is `import \\* as other"),
        ("export let count = 0;", "what is `export let count"),
        ('export * from "./other.js";', "what is `export \\*"),
        ('import {D} from "./back.js";', "main.js -> back.js -> main.js"),
        ('import {A} from "./in_other.js";\nimport {C} from "./in/other.js";', "get one name"),
    ],
)
def test_what_the_bundler_does_not_understand_is_refused(line: str, said: str):
    modules = {
        "main.js": f"{line}\n",
        "other.js": "export const A = 1;\n",
        "in_other.js": "export const A = 1;\n",
        "in/other.js": "export const C = 1;\n",
        "back.js": 'import {A} from "./main.js";\nexport const D = A;\n',
    }
    with pytest.raises(ModuleError, match=said):
        bundle("main.js", modules.__getitem__)
