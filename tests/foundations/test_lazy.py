"""Names load their module at first use."""

import sys

import pytest

from workingpapers.foundations.lazy import lazy_names


def test_names_come_from_their_modules_when_asked():
    load = lazy_names("xml", {"dom.minidom": ["parseString"], "sax": ["make_parser"]})
    sys.modules.pop("xml.dom.minidom", None)
    assert load("parseString")("<a/>").documentElement.tagName == "a"
    assert "xml.dom.minidom" in sys.modules
    with pytest.raises(AttributeError, match="module 'xml' has no attribute 'other'"):
        load("other")
