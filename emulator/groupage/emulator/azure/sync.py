"""Azure's sync endpoints: the deployment is the body's model, or stands in the path."""

from groupage.emulator.azure.errors import refusal
from groupage.emulator.azure.lines import filtered
from groupage.emulator.calls import Call, Handler, Reply
from groupage.emulator.openai import sync as openai
from groupage.emulator.sync_calls import Limiter


def handler(endpoint: str, limiter: Limiter) -> Handler:
    answer = openai.handler(endpoint, limiter)

    async def handle(call: Call) -> Reply:
        deployment = call.request.path_params.get("deployment")
        model = (await call.json()).get("model", deployment)
        if model in call.core.settings.batch_deployments:
            message = f"The operation does not work with the specified model, {model}. Please choose different model."
            raise refusal(400, message, "OperationNotSupported")
        if deployment is not None and model != deployment:
            # The service would answer by the path alone; a client that says both means one of them wrongly.
            raise refusal(404, "The API deployment for this resource does not exist.", "DeploymentNotFound")
        reply = await answer(call)
        if reply.status == 200 and isinstance(reply.body, bytes) and reply.body != b"{}":
            reply.body = filtered(reply.body)
        return reply

    return handle
