"""Reading queries, diagrams of all formats and regimes; latent projection; what is refused and how."""

import networkx as nx
import pytest

from workingpapers.causality.counterfactual_id import (
    ADMG,
    ANY,
    Query,
    Regime,
    Response,
    Symbol,
    from_networkx,
    graph_from_text,
    read_graph,
    read_regimes,
)
from workingpapers.foundations.errors import InputError

NAMES = ("X", "M", "Y", "smoking", "Z1")
DIRECTED, BIDIRECTED = {("X", "M"), ("M", "Y"), ("X", "Y")}, {("X", "Y")}


def test_nested_query():
    query = Query.parse("P(Y[x, M[x']] = y | X = x'')", NAMES)
    inner = Response("M", (("X", Symbol("X", "x'")),))
    assert query.outcomes[0].response == Response("Y", (("M", inner), ("X", Symbol("X", "x"))))
    assert query.outcomes[0].symbol == Symbol("Y", "y")
    assert query.conditions[0].symbol == Symbol("X", "x''")
    assert str(query) == "P(Y[M[X=x'], X=x] = y | X = x'')"
    assert Query.parse(str(query), NAMES) == query


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("P(Y[x])", "P(Y[X=x] = y)"),
        ("P(Y[X = 1] = 0)", "P(Y[X=1] = 0)"),
        ('P(Y[X = "a b"] = no)', "P(Y[X=a b] = no)"),
        ("P(Y[M])", "P(Y[M] = y)"),
        ("P(Y[x0, M[x1]])", "P(Y[M[X=x1], X=x0] = y)"),
        ("P(Y[z1])", "P(Y[Z1=z1] = y)"),
        ("P(Y[smoking', x*] = y)", "P(Y[X=x*, smoking=smoking'] = y)"),
        ("P(Y @ -X, M @ +X)", "P(Y[X=x] = y, M[X=x*] = m)"),
        ("P(Y @ (-X, ~M) | X)", "P(Y[M=m*, X=x] = y | X = x)"),
        ("P(Y[M[x, ]] = y)", "P(Y[M[X=x]] = y)"),
        ("P(Y[X = -1] = 0.5)", "P(Y[X=-1] = 0.5)"),
    ],
)
def test_ways_to_write_a_query(text, same):
    assert str(Query.parse(text, NAMES)) == same


def test_without_a_graph_the_names_are_guessed():
    query = Query.parse("P(Y[x, M[x']] = y | X = x')")
    assert set(query.variables) == {"Y", "M", "X"}
    assert query == Query.parse("P(Y[x, M[x']] = y | X = x')", NAMES)


def test_assign_replaces_every_symbol():
    query = Query.parse("P(Y[x, M[x']] = y | X = x')", NAMES).assign({"x": 1, "x'": 0, "y": "yes"})
    assert str(query) == "P(Y[M[X=0], X=1] = yes | X = 0)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Y[x]", "needs 'P' where it has 'Y'"),
        ("P(Y[x] = y", "needs ')' where it has its end"),
        ("P(Y[x = y)", "'x', which is not in the graph; did you mean 'X'"),
        ("P(Y[x m])", "misses a ']' before 'm'"),
        ("P(Y[x]) - P(Y)", "goes on after its end with '-'"),
        ("P(Q[x])", "'Q', which is not in the graph"),
        ("P(Y[q])", "The symbol 'q' belongs to no variable of X, M, Y, smoking, Z1; write it in full, like X=q."),
        ("P(Y[x, x'])", "two values of 'X' in its subscript"),
        ("P(Y = )", "needs a value before ')'"),
        ("P(Y ! y)", "cannot be read at '! y)'"),
        ("P(1 = y)", "names '1'"),
        ("P(" + "Y[M[" * 6 + "x" + "]]" * 6 + ")", "nests deeper than 10"),
        ("", "needs 'P' where it has its end"),
    ],
)
def test_queries_that_cannot_be_read(text, words):
    with pytest.raises(InputError) as caught:
        Query.parse(text, NAMES)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


FORMATS = [
    'digraph { X -> M -> Y; X -> Y; X -> Y [dir=both, style="dashed"]; }',
    "digraph g { node [shape=circle]; rankdir=LR; X -> {M Y}\n M -> Y // why\n X <-> Y /* shared */ }",
    'strict digraph "a graph" { "X" -> "M"; "Y" -> "M" [dir=back]; Y -> X [dir=back]; X -> Y [dir=both] }',
    'dag { bb="0,0,1,1"\n X [exposure,pos="0,1"]\n Y [outcome]\n X -> M [beta=.3]\n Y <- M\n X -> Y\n X <-> Y }',
    "dag { X -> M X -> Y M -> Y U [latent] U -> X U -> Y }",
    'digraph { U [observed="no"]; U -> X; U -> Y; X -> M; X -> Y; M -> Y }',
    'NxMixedGraph.from_str_edges(directed=[("X","M"),("M","Y"),("X","Y")], undirected=[("Y","X")])',
    'NxMixedGraph.from_str_adj(directed={"X": ["M", "Y"], "M": ["Y"]}, undirected={"X": ["Y"]})',
]


@pytest.mark.parametrize("text", FORMATS)
def test_formats_give_one_diagram(text, tmp_path):
    file = tmp_path / "graph.txt"
    file.write_text(text)
    graph = read_graph(file)
    assert (set(graph.nodes), set(graph.directed), set(graph.bidirected)) == (set("XMY"), DIRECTED, BIDIRECTED)


def test_names_may_hold_dots_dashes_and_spaces():
    graph = graph_from_text('digraph { age-group -> bmi.2; "my x" -> age-group }')
    assert set(graph.directed) == {("age-group", "bmi.2"), ("my x", "age-group")}


def test_networkx_graphs():
    graph = nx.MultiDiGraph([("X", "M"), ("M", "Y"), ("X", "Y")])
    graph.add_edge("X", "Y", bidirected=True)
    got = from_networkx(graph)
    assert (set(got.directed), set(got.bidirected)) == (DIRECTED, BIDIRECTED)
    simple = nx.DiGraph([("X", "M"), ("M", "Y"), ("X", "Y"), ("U", "X"), ("U", "Y")])
    simple.nodes["U"]["latent"] = True
    assert from_networkx(simple).bidirected == got.bidirected
    assert from_networkx(nx.DiGraph(DIRECTED), [("Y", "X")]).bidirected == got.bidirected
    with pytest.raises(InputError, match="undirected"):
        from_networkx(nx.Graph(DIRECTED))


def test_y0_graphs():
    pytest.importorskip("y0")
    from workingpapers.causality.counterfactual_id import from_y0
    from workingpapers.causality.counterfactual_id.peer import to_y0

    graph = ADMG("XMYZ", DIRECTED, BIDIRECTED)
    back = from_y0(to_y0(graph))
    assert (set(back.nodes), back.directed, back.bidirected) == (set("XMYZ"), graph.directed, graph.bidirected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("digraph { X -> Y -> X }", "has the cycle"),
        ("graph { X -- Y }", "starts with 'graph { X -- Y }'"),
        ("digraph { X -- Y }", "undirected edge X -- Y"),
        ("digraph { X -> Y", "misses its closing brace"),
        ("digraph { X -> ; }", "';' where a node should stand"),
        ("digraph { X [latent=yes] }", "holds no observed variable"),
        ("digraph { X -> Y [dir=both", "misses a closing bracket"),
        ("digraph { subgraph cluster { X } }", "'subgraph' where a node should stand"),
        ("a,b\n1,2\n", "starts with 'a,b'"),
        ("NxMixedGraph.from_str_edges(directed=open('x'))", "no y0 graph that can be read"),
        ("digraph { X -> X }", "'X' has an edge to itself"),
    ],
)
def test_diagrams_that_cannot_be_used(text, words):
    with pytest.raises(InputError) as caught:
        graph_from_text(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cycle_is_named():
    with pytest.raises(InputError, match=r"cycle A -> B -> C -> A|cycle B -> C -> A -> B|cycle C -> A -> B -> C"):
        ADMG(directed=[("A", "B"), ("B", "C"), ("C", "A")])
    with pytest.raises(InputError, match=r"names 'Z', which is no node"):
        ADMG("XY", [("X", "Z")])


def test_projection_keeps_the_paths():
    graph = ADMG("ABCD", [("A", "B"), ("B", "C"), ("B", "D")], [("B", "A")])
    small = graph.project({"B"})
    assert small.directed == {("A", "C"), ("A", "D")}
    assert small.bidirected == {("C", "D"), ("A", "C"), ("A", "D")}
    assert ADMG("ABC", [("A", "B"), ("B", "C")]).project({"A"}).bidirected == frozenset()
    assert ADMG("ABC", [("A", "C")], [("A", "B")]).project({"A"}).bidirected == {("B", "C")}


def test_components_and_ancestors():
    graph = ADMG("ABCD", [("A", "B"), ("B", "C")], [("A", "C"), ("C", "D")])
    assert graph.components() == [frozenset("ACD"), frozenset("B")]
    assert graph.components("AD") == [frozenset("A"), frozenset("D")]
    assert graph.ancestors("C") == set("ABC")
    assert graph.ancestors("C", no_edges_into={"B"}) == set("BC")
    assert graph.ancestors("C", no_edges_out_of={"B"}) == {"C"}
    assert graph.ancestors("C", within={"A", "C"}) == {"C"}


REGIMES = """
[obs]
[trial]
do = ["X"]
observed = ["Y"]
[split]
cut = { "X->M" = "x'", "X -> Y" = "*" }
columns = { "X->Y" = "shown" }
"""


def test_regimes_from_a_file(tmp_path):
    file = tmp_path / "regimes.toml"
    file.write_text(REGIMES)
    obs, trial, split = read_regimes(file)
    assert obs == Regime("obs")
    assert trial == Regime("trial", do={"X": ANY}, observed={"Y"})
    graph = ADMG("XMY", DIRECTED)
    assert split.feeds(graph) == {("X", "M"): ("value", "x'"), ("X", "Y"): ("column", "shown")}
    assert split.settings(graph) == {"shown": "X"}
    assert str(split) == "split (X->M at x', X->Y random)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("obs = 1", "'obs' is no table"),
        ("[obs]\ncuts = {}", "has the key 'cuts'; did you mean 'cut'"),
        ('[a]\ncut = { "XY" = "*" }', "cuts 'XY', which is no edge"),
        ("[a]\ndo = 3", "has do = 3"),
        ("[a]\nobserved = 'X'", "has observed = 'X'"),
        ("[a", "is not TOML"),
        ("# nothing", "holds no regime"),
    ],
)
def test_regime_files_that_cannot_be_used(text, words, tmp_path):
    file = tmp_path / "regimes.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_regimes(file)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
