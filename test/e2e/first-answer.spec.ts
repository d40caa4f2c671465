import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import type { TurnRequestContext } from 'nestjs-a2a-cluster';
import { getTask, send } from '../../tools/harness/client.js';
import { Deferred } from '../../tools/harness/wait.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import { agentMessage, completed, inputRequired, textOf } from './agent-events.js';

const fixture = new AgentAppFixture();

/** An agent that says nothing until it is told to. */
function silentAgent(speak: (bus: ExecutionEventBus, context: TurnRequestContext) => void = completed) {
  const speaks = new Deferred();
  const runs: string[] = [];
  return {
    speaks,
    runs,
    execute: async (context: TurnRequestContext, bus: ExecutionEventBus) => {
      runs.push(textOf(context.userMessage));
      if (textOf(context.userMessage) === 'ask') return inputRequired(bus, context);
      await speaks.promise;
      speak(bus, context);
    },
  };
}

const soon = { turns: { firstEventMs: 50 } };

describe.each(TRANSPORTS)('While the agent says nothing, over %s', (transport) => {
  test('B6 a stream begins with its task as SUBMITTED', async () => {
    const agent = silentAgent();
    const app = await fixture.start({ execute: agent.execute, cluster: soon });
    const sender = Recording.send(await app.client({ transport }), 'hello');
    const { id } = await sender.task();
    expect((await getTask(await app.client({ transport }), id)).history.map(textOf)).toEqual(['hello']);
    agent.speaks.resolve();
    expect((await sender.finished()).map(summaryOf)).toEqual(['task SUBMITTED', 'status COMPLETED']);
  });

  test('B6 an immediate send is answered, and a copy of its message finds the task', async () => {
    const agent = silentAgent();
    const [a, b] = await fixture.startTwo({ execute: agent.execute, cluster: soon });
    const messageId = `same ${transport}`;
    const immediate = { returnImmediately: true };
    const first = await send(await a.client({ transport }), 'hello', { messageId, configuration: immediate });
    expect(stateName(first)).toBe('SUBMITTED');
    const copy = await send(await b.client({ transport }), 'hello', { messageId, configuration: immediate });
    expect(copy.id).toBe(first.id);
    agent.speaks.resolve();
    const end = await send(await b.client({ transport }), 'hello', { messageId });
    expect([end.id, stateName(end)]).toEqual([first.id, 'COMPLETED']);
    expect(agent.runs).toEqual(['hello']);
  });

  test('B6 the sender of a follow-up is answered with the task as it was', async () => {
    const agent = silentAgent();
    const app = await fixture.start({ execute: agent.execute, cluster: soon });
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'ask');
    const sender = Recording.send(client, 'go on', { taskId });
    await sender.task();
    agent.speaks.resolve();
    expect((await sender.finished()).map(summaryOf)).toEqual(['task INPUT_REQUIRED', 'status COMPLETED']);
  });

  test('B6 a plain message that comes after it completes the task', async () => {
    const agent = silentAgent((bus, context) => bus.publish({ kind: 'message', data: agentMessage(context, 'late') }));
    const app = await fixture.start({ execute: agent.execute, cluster: soon });
    const sender = Recording.send(await app.client({ transport }), 'hello');
    const { id } = await sender.task();
    agent.speaks.resolve();
    expect((await sender.finished()).map(summaryOf)).toEqual(['task SUBMITTED', 'status COMPLETED']);
    const { status } = await getTask(await app.client({ transport }), id);
    expect(textOf(status?.message)).toBe('late');
  });
});
