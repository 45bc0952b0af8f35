"""The tools for an assistant, over the protocol itself."""

import asyncio
import json
import os
import re
import sys

import pytest

mcp = pytest.importorskip("mcp")

PROGRAM = "import argparse; from workingpapers.web.commands import mcp; mcp(argparse.Namespace())"


@pytest.fixture
def talk(data_folder):
    """Run a conversation with the server as an assistant would start it."""

    def run(conversation):
        async def session():
            server = mcp.StdioServerParameters(
                command=sys.executable,
                args=["-c", PROGRAM],
                env={**os.environ, "WORKINGPAPERS_DATA": str(data_folder)},
            )
            async with mcp.stdio_client(server) as streams, mcp.ClientSession(*streams) as client:
                await client.initialize()
                await conversation(client)

        asyncio.run(asyncio.wait_for(session(), 120))

    return run


def content(answer):
    return json.loads(answer.content[0].text)


def test_papers_are_searched_and_shown(talk):
    async def conversation(client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "show", "check", "results"}
        assert all(tool.description for tool in tools.values())
        found = content(await client.call_tool("search", {"query": "condorcet", "limit": 1}))
        assert [hit["slug"] for hit in found["hits"]] == ["condorcet_nash"]
        shown = content(await client.call_tool("show", {"paper": "condorcet_nash"}))
        assert shown["title"].startswith("Statistical Impossibility")
        assert {item["verdict"] for item in shown["measured"]} <= {"supported", "not supported", "inconclusive"}
        wrong = await client.call_tool("show", {"paper": "condorcet_nsah"})
        assert wrong.is_error
        assert "did you mean 'condorcet_nash'" in wrong.content[0].text

    talk(conversation)


def test_a_check_tells_its_progress_and_its_verdict_is_kept(talk):
    async def conversation(client):
        told = []

        async def progress(done, total, message):
            told.append((done, total))
            assert message == "noise" if done == 0 else re.fullmatch(r"noise: .+, seed \d", message)

        wanted = {"paper": "condorcet_nash", "claims": ["noise"], "seeds": 2}
        checked = content(await client.call_tool("check", wanted, progress_callback=progress))
        [result] = checked["results"]
        assert result["verdict"] in ("supported", "not supported", "inconclusive")
        assert result["seeds"] == 2
        assert told[-1] == (6, 6)
        assert told == sorted(told)
        kept = content(await client.call_tool("results", {"paper": "condorcet_nash"}))
        assert [item["run"] for item in kept["results"]] == [result["run"]]
        assert kept["unfinished"] == []
        wrong = await client.call_tool("check", {"paper": "condorcet_nash", "claims": ["nosie"]})
        assert wrong.is_error
        assert "did you mean 'noise'" in wrong.content[0].text

    talk(conversation)
