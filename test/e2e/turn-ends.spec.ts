import { TaskState } from '@a2a-js/sdk';
import { AgentEvent } from '@a2a-js/sdk/server';
import { TurnTimeoutError } from 'nestjs-a2a-cluster';
import { collect, getTask, send, sendForMessage, stream } from '../../tools/harness/client.js';
import { stateName, summaryOf } from '../helpers/recording.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import {
  agentMessage,
  artifactOf,
  completed,
  inputRequired,
  publishArtifact,
  publishStatus,
  rawPart,
  textOf,
  textPart,
  working,
} from './agent-events.js';

const fixture = new AgentAppFixture();

describe.each(TRANSPORTS)('How a turn ends, over %s', (transport) => {
  test.each(['WORKING', 'SUBMITTED', 'nothing'])(
    'I6 an executor that returns early, having published %s: FAILED, saying so',
    async (published) => {
      const app = await fixture.start({
        execute: (context, bus) => {
          if (published !== 'nothing')
            publishStatus(bus, context, TaskState[`TASK_STATE_${published}` as 'TASK_STATE_WORKING']);
        },
      });
      const client = await app.client({ transport });
      const task = await send(client, 'hello');
      expect(stateName(task)).toBe('FAILED');
      expect(textOf(task.status?.message)).toMatch(/returned without/);
      expect(task.history.map(textOf)).toContain('hello');
      expect(await getTask(client, task.id)).toEqual(task);
    },
  );

  test("I6 unfinishedTurn 'complete': an executor that returns early completes its task", async () => {
    const app = await fixture.start({
      execute: (context, bus) => working(bus, context),
      cluster: { turns: { unfinishedTurn: 'complete' } },
    });
    expect(stateName(await send(await app.client({ transport }), 'hello'))).toBe('COMPLETED');
  });

  test.each(['before its first event', 'in the middle'])(
    'I6 an executor that throws %s: FAILED with its message',
    async (when) => {
      const app = await fixture.start({
        execute: async (context, bus) => {
          if (when === 'in the middle') {
            working(bus, context);
            publishArtifact(bus, context, artifactOf('a1', textPart('kept')));
            await context.turn.flush();
          }
          throw new Error('the printer is on fire');
        },
      });
      const client = await app.client({ transport });
      const responses = await collect(stream(client, 'hello'));
      expect(responses.at(-1)?.payload?.$case).toBe('statusUpdate');
      const { id } = responses[0]?.payload?.value as { id: string };
      const task = await getTask(client, id);
      expect(stateName(task)).toBe('FAILED');
      expect(textOf(task.status?.message)).toContain('the printer is on fire');
      expect(task.artifacts).toHaveLength(when === 'in the middle' ? 1 : 0);
    },
  );

  test('I4 an executor that throws after its own end: the end stands', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        completed(bus, context, 'done');
        throw new Error('too late');
      },
    });
    const client = await app.client({ transport });
    const task = await send(client, 'hello');
    expect(stateName(await getTask(client, task.id))).toBe('COMPLETED');
    await eventually(() => fixture.logger.errors.some((line) => line.includes('too late')));
  });

  test('I2 an executor that ends its task and never returns holds neither the lease nor the sender', async () => {
    const over = new Deferred();
    const app = await fixture.start({
      execute: async (context, bus) => {
        completed(bus, context, 'done');
        await over.promise;
      },
    });
    const client = await app.client({ transport });
    const responses = await collect(stream(client, 'hello'));
    expect(responses.map(summaryOf).at(-1)).toBe('status COMPLETED');
    expect(await fixture.database.query('SELECT * FROM a2a_task_leases')).toEqual([]);
    over.resolve();
  });

  test('a Message answers a new task: nothing is stored', async () => {
    const app = await fixture.start({
      execute: (context, bus) => bus.publish(AgentEvent.message(agentMessage(context, 'forty-two'))),
    });
    const client = await app.client({ transport });
    const before = await countRows();
    expect(textOf(await sendForMessage(client, 'what is it?'))).toBe('forty-two');
    const streamed = await collect(stream(client, 'what is it?'));
    expect(streamed.map(({ payload }) => payload?.$case)).toEqual(['message']);
    const now = await sendForMessage(client, 'now?', { configuration: { returnImmediately: true } });
    expect(textOf(now)).toBe('forty-two');
    expect(await countRows()).toEqual(before);
  });

  test('a Message with bytes in it arrives with them', async () => {
    const bytes = Buffer.from([0, 255, 128, 10, 0]);
    const app = await fixture.start({
      execute: (context, bus) => bus.publish(AgentEvent.message(agentMessage(context, '', [rawPart(bytes)]))),
    });
    const message = await sendForMessage(await app.client({ transport }), 'bytes, please');
    expect(Buffer.from(message.parts[0]?.content?.value as Uint8Array)).toEqual(bytes);
  });

  test('a Message answers a follow-up: the task waits on, free for the next one', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        if (!context.task) return inputRequired(bus, context, 'which?');
        if (textOf(context.userMessage) === 'this one') return completed(bus, context);
        bus.publish(AgentEvent.message(agentMessage(context, 'choose, please')));
      },
    });
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    expect(textOf(await sendForMessage(client, 'hm', { taskId }))).toBe('choose, please');
    expect(stateName(await getTask(client, taskId))).toBe('INPUT_REQUIRED');
    const streamed = await collect(stream(client, 'hmm', { taskId }));
    expect(streamed.map(({ payload }) => payload?.$case)).toEqual(['message']);
    expect(stateName(await send(client, 'this one', { taskId }))).toBe('COMPLETED');
    expect((await getTask(client, taskId)).history.map(textOf)).toEqual(['hello', 'which?', 'hm', 'hmm', 'this one']);
  });

  test('a Message after WORKING completes the task with it', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        working(bus, context);
        bus.publish(AgentEvent.message(agentMessage(context, 'forty-two')));
      },
    });
    const client = await app.client({ transport });
    const task = await send(client, 'what is it?');
    expect(stateName(task)).toBe('COMPLETED');
    expect(textOf(task.status?.message)).toBe('forty-two');
    const streamed = await collect(stream(client, 'what is it?'));
    expect(streamed.map(summaryOf)).toEqual(['task SUBMITTED', 'status WORKING', 'status COMPLETED']);
  });

  test('O22 maxTurnDurationMs ends an executor that never settles, and its renewals', async () => {
    const over = new Deferred();
    const aborted = new Deferred<unknown>();
    const app = await fixture.start({
      execute: async (context, bus) => {
        working(bus, context);
        context.turn.signal.addEventListener('abort', () => aborted.resolve(context.turn.signal.reason));
        await over.promise;
      },
      cluster: { turns: { maxTurnDurationMs: 250 } },
    });
    const task = await send(await app.client({ transport }), 'hello');
    expect(stateName(task)).toBe('FAILED');
    expect(textOf(task.status?.message)).toContain('250 ms');
    const reason = await aborted.promise;
    expect(reason).toBeInstanceOf(TurnTimeoutError);
    expect((reason as TurnTimeoutError).code).toBe('A2A_TURN_TIMEOUT');
    expect(await fixture.database.query('SELECT * FROM a2a_task_leases')).toEqual([]);
    over.resolve();
  });

  test('maxQueuedBytes fails the turn that outruns the database, and not the process', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        if (textOf(context.userMessage) !== 'much') return completed(bus, context);
        const chunk = 'x'.repeat(10_000);
        for (let at = 0; at < 100; at += 1) publishArtifact(bus, context, artifactOf('a1', textPart(chunk)), at > 0);
        completed(bus, context);
      },
      cluster: { turns: { maxQueuedBytes: 100_000 } },
    });
    const client = await app.client({ transport });
    const task = await send(client, 'much');
    expect(stateName(task)).toBe('FAILED');
    expect(textOf(task.status?.message)).toMatch(/maxQueuedBytes = 100000.*flush/);
    expect(stateName(await send(client, 'little'))).toBe('COMPLETED');
  });

  test('turn.flush() keeps an executor that publishes much below maxQueuedBytes', async () => {
    const app = await fixture.start({
      execute: async (context, bus) => {
        const chunk = 'x'.repeat(50_000);
        for (let at = 0; at < 10; at += 1) {
          publishArtifact(bus, context, artifactOf('a1', textPart(chunk)), at > 0);
          await context.turn.flush();
        }
        completed(bus, context);
      },
      cluster: { turns: { maxQueuedBytes: 100_000 } },
    });
    const client = await app.client({ transport });
    const task = await send(client, 'much');
    expect(stateName(task)).toBe('COMPLETED');
    expect(task.artifacts[0]?.parts).toHaveLength(10);
  });
});

async function countRows(): Promise<unknown> {
  return fixture.database.query(
    'SELECT (SELECT count(*) FROM a2a_tasks) AS tasks, (SELECT count(*) FROM a2a_task_events) AS events',
  );
}
