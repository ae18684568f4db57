"""Jobs at OpenAI: emulated files and batches, through the real openai."""

from job_world import CHAT, JobWorld


class OpenAIWorld(JobWorld):
    name = "openai"
    model = "gpt-4o-mini"

    def left(self) -> list[str]:
        """Of somebody else's batch the results are somebody else's too."""
        state = self.emulator.state()
        theirs = {batch["id"] for batch in state["batches"] if not (batch["metadata"] or {}).get("groupage_tag")}
        return [file["id"] for file in state["files"] if file["filename"].rpartition("_")[0] not in theirs]

    async def stranger(self) -> list[str]:
        sdk = await self.adapter._sdk()
        file = await sdk.files.create(file=("theirs.jsonl", self.one_line()), purpose="batch")
        await sdk.batches.create(endpoint=CHAT, input_file_id=file.id, completion_window="24h")
        return [file.id]
