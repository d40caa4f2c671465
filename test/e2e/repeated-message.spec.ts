import { collect, getTask, send, stream } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred } from '../../tools/harness/wait.js';
import { AgentAppFixture, type AgentBehaviour, TRANSPORTS } from './agent-app.fixture.js';
import { completed, inputRequired, textOf, working } from './agent-events.js';

const fixture = new AgentAppFixture();

/** Counts its turns. */
function countingAgent(release = Promise.resolve()): { runs: string[]; options: AgentBehaviour } {
  const runs: string[] = [];
  return {
    runs,
    options: {
      execute: async (context, bus) => {
        runs.push(textOf(context.userMessage));
        if (textOf(context.userMessage) === 'ask') return inputRequired(bus, context);
        working(bus, context);
        await release;
        completed(bus, context, 'done');
      },
    },
  };
}

describe.each(TRANSPORTS)('A repeated messageId, over %s', (transport) => {
  test('with the same content finds its task, at another replica too, and runs nothing', async () => {
    const { runs, options } = countingAgent();
    const [a, b] = await fixture.startTwo(options);
    const messageId = `same ${transport}`;
    const first = await send(await a.client({ transport }), 'hello', { messageId });
    const second = await send(await b.client({ transport }), 'hello', { messageId });
    expect(second).toEqual(first);
    expect(runs).toEqual(['hello']);
    const streamed = await collect(stream(await b.client({ transport }), 'hello', { messageId }));
    expect(streamed.map(summaryOf)).toEqual(['task COMPLETED']);
  });

  test('while the turn runs: a blocking send waits for its end, a stream follows it', async () => {
    const release = new Deferred();
    const { runs, options } = countingAgent(release.promise);
    const [a, b] = await fixture.startTwo(options);
    const messageId = `running ${transport}`;
    const sender = Recording.send(await a.client({ transport }), 'hello', { messageId });
    const { id } = await sender.task();
    const atB = await b.client({ transport });
    const repeated = Recording.send(atB, 'hello', { messageId });
    expect((await repeated.task()).id).toBe(id);
    const blocking = send(atB, 'hello', { messageId });
    release.resolve();
    expect(stateName(await blocking)).toBe('COMPLETED');
    expect((await repeated.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
    await sender.finished();
    expect(runs).toEqual(['hello']);
  });

  test('of a follow-up runs once and stands in the history once', async () => {
    const { runs, options } = countingAgent();
    const app = await fixture.start(options);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'ask');
    const messageId = `follow-up ${transport}`;
    const tasks = [await send(client, 'end', { taskId, messageId }), await send(client, 'end', { taskId, messageId })];
    expect(tasks.map(({ id }) => id)).toEqual([taskId, taskId]);
    expect(runs).toEqual(['ask', 'end']);
    expect((await getTask(client, taskId)).history.map(textOf)).toEqual(['ask', 'end', 'done']);
  });
});
