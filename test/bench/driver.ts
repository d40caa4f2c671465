import { TaskState } from '@a2a-js/sdk';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { callContext, sendRequest } from './agent/messages.js';

/** Runs `work` as often as said, so many at once. Returns how long all of it took, in ms. */
export async function atOnce(times: number, concurrency: number, work: () => Promise<unknown>): Promise<number> {
  let left = times;
  const begun = performance.now();
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: Math.min(times, concurrency) }, worker));
  return performance.now() - begun;
}

/** A blocking send whose task has to be COMPLETED when it is answered. */
export async function blockingTurn(handler: A2ARequestHandler, text = 'turn'): Promise<void> {
  const answer = await handler.sendMessage(sendRequest(text), callContext());
  if (!('status' in answer) || answer.status?.state !== TaskState.TASK_STATE_COMPLETED) {
    throw new Error(`The turn did not complete: ${JSON.stringify(answer)}`);
  }
}

/** A streaming send, read to its end; every chunk has to be there. */
export async function readStream(handler: A2ARequestHandler, chunks: number, bytes: number): Promise<void> {
  let seen = 0;
  let completed = false;
  for await (const { payload } of handler.sendMessageStream(sendRequest(`stream ${chunks} ${bytes}`), callContext())) {
    if (payload?.$case === 'artifactUpdate') seen += 1;
    if (payload?.$case === 'statusUpdate') {
      completed ||= payload.value.status?.state === TaskState.TASK_STATE_COMPLETED;
    }
  }
  if (seen !== chunks || !completed) throw new Error(`The stream had ${seen} of ${chunks} chunks`);
}
