import pytest
from support.readings import blank_page, failed_page, text_page

from data_contracts.errors import ContractViolated
from data_contracts.formats.jsonl import JsonlWriter, read_pages


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pages.jsonl"
    writer = JsonlWriter(path)
    for page in [text_page(["Straße aͤ 𠀀", "two"], 1), blank_page(2), failed_page(3)]:
        writer.add(page)
    writer.finish()
    return path


def test_what_is_written_is_read_back_equal(file):
    assert list(read_pages(file)) == [text_page(["Straße aͤ 𠀀", "two"], 1), blank_page(2), failed_page(3)]


def test_every_page_is_one_line(file):
    assert file.read_bytes().count(b"\n") == 3


def test_pages_are_read_one_by_one(file):
    with file.open("ab") as damaged:
        damaged.write(b"no page\n")
    pages = read_pages(file)
    assert next(pages).page_number == 1


def test_a_line_that_is_no_page_is_named(file):
    content = file.read_text(encoding="utf-8").splitlines()
    content[1] = content[1].replace('"status":"blank"', '"status":"lost"')
    file.write_text("\n".join(content) + "\n", encoding="utf-8")
    with pytest.raises(ContractViolated, match=r"pages\.jsonl line 2 .*status"):
        list(read_pages(file))


def test_a_file_that_was_cut_off_is_refused(file):
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ContractViolated, match="cut off in line 3"):
        list(read_pages(file))
