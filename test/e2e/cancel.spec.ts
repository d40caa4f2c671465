import { TaskState } from '@a2a-js/sdk';
import { AgentEvent } from '@a2a-js/sdk/server';
import { TaskCanceledError } from 'nestjs-a2a-cluster';
import { cancel, errorName, errorOf, getTask, send, subscribe } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Barrier, Deferred, eventually, within } from '../../tools/harness/wait.js';
import { AgentAppFixture, TRANSPORTS, WITHOUT_LEASES } from './agent-app.fixture.js';
import { aborted, completed, inputRequired, publishStatus, taskOf, textOf, working } from './agent-events.js';
import { readLog } from '../helpers/task-log.js';

const fixture = new AgentAppFixture();

/** States that the task's log has set, in order. */
const statesOf = async (taskId: string): Promise<string[]> =>
  (await readLog(fixture.database, taskId)).entries.flatMap(({ state }) => state ?? []);

describe.each(TRANSPORTS)('CancelTask, over %s', (transport) => {
  test('O40 canceled at B while A runs: CANCELED, the signal aborted, the stream ended, COMPLETED never seen', async () => {
    const reason = new Deferred<unknown>();
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        working(bus, context);
        reason.resolve(await aborted(context.turn));
        completed(bus, context, 'too late');
      },
    });
    const sender = Recording.send(await a.client({ transport }), 'hello');
    const { id } = await sender.task();
    const atB = await b.client({ transport });
    const subscriber = Recording.subscribe(atB, id);
    await subscriber.task();
    expect(stateName(await cancel(atB, id))).toBe('CANCELED');
    expect(await within(reason.promise, 1_000, 'the signal aborts')).toBeInstanceOf(TaskCanceledError);
    for (const recording of [sender, subscriber]) {
      expect((await recording.finished()).map(summaryOf).at(-1)).toBe('status CANCELED');
    }
    expect(await statesOf(id)).toEqual(['SUBMITTED', 'WORKING', 'CANCELED']);
  });

  test('O40 a deaf executor: CANCELED once cancelTimeoutMs has passed, what it says later is dropped', async () => {
    const over = new Deferred();
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        working(bus, context);
        await over.promise;
        completed(bus, context, 'too late');
      },
      cluster: { turns: { cancelTimeoutMs: 300 } },
    });
    const sender = Recording.send(await a.client({ transport }), 'hello');
    const { id } = await sender.task();
    const asked = performance.now();
    expect(stateName(await cancel(await b.client({ transport }), id))).toBe('CANCELED');
    expect(performance.now() - asked).toBeGreaterThan(270);
    await sender.finished();
    over.resolve();
    await eventually(() => fixture.logger.warnings.some((line) => line.includes(`for task ${id}`)));
    expect(await statesOf(id)).toEqual(['SUBMITTED', 'WORKING', 'CANCELED']);
  });

  test("the executor's own CANCELED, with its words, is the one that counts", async () => {
    const canceling = new Deferred();
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        working(bus, context);
        await aborted(context.turn);
        await canceling.promise;
      },
      cancelTask: (taskId, bus) => {
        publishStatus(bus, { taskId, contextId: '' }, TaskState.TASK_STATE_CANCELED, 'swept up');
        canceling.resolve();
      },
    });
    const sender = Recording.send(await a.client({ transport }), 'hello');
    const { id } = await sender.task();
    const task = await cancel(await b.client({ transport }), id);
    expect([stateName(task), textOf(task.status?.message)]).toEqual(['CANCELED', 'swept up']);
    await sender.finished();
    expect(await statesOf(id)).toEqual(['SUBMITTED', 'WORKING', 'CANCELED']);
  });

  test('a cancelTask that throws does not keep the task from being CANCELED', async () => {
    const app = await fixture.start({
      execute: async (context, bus) => {
        if (textOf(context.userMessage) === 'ask') return inputRequired(bus, context);
        working(bus, context);
        await aborted(context.turn);
      },
      cancelTask: () => Promise.reject(new Error('no broom')),
    });
    const client = await app.client({ transport });
    const waiting = await send(client, 'ask');
    expect(stateName(await cancel(client, waiting.id))).toBe('CANCELED');
    const running = await send(client, 'work', { configuration: { returnImmediately: true } });
    expect(stateName(await cancel(client, running.id))).toBe('CANCELED');
  });

  test('O41 cancels and completions at the same moment, many times: always one end, told alike to all', async () => {
    const starts = new Map<string, Barrier>();
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        working(bus, context);
        await context.turn.flush();
        await starts.get(textOf(context.userMessage))!.arrive();
        completed(bus, context);
      },
    });
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const ends = await Promise.all(
      Array.from({ length: 10 }, async (_, at) => {
        const start = new Barrier(2);
        starts.set(String(at), start);
        const sender = Recording.send(atA, String(at));
        const { id } = await sender.task();
        await start.arrive();
        const outcome = await cancel(atB, id).then(stateName, (error: Error) => error.name);
        const end = stateName(await getTask(atA, id));
        expect(outcome).toBe(end === 'CANCELED' ? 'CANCELED' : 'TaskNotCancelableError');
        expect((await sender.finished()).map(summaryOf).at(-1)).toBe(`status ${end}`);
        return [id, end] as const;
      }),
    );
    for (const [id, end] of ends) {
      expect((await statesOf(id)).filter((state) => state === 'CANCELED' || state === 'COMPLETED')).toEqual([end]);
    }
  });

  test('O42 waiting at A, canceled at B, follow-up at A: UnsupportedOperationError', async () => {
    const cleaned: string[] = [];
    const [a, b] = await fixture.startTwo({
      execute: (context, bus) => inputRequired(bus, context, 'which?'),
      cancelTask: (taskId) => void cleaned.push(taskId),
    });
    const atA = await a.client({ transport });
    const { id: taskId } = await send(atA, 'hello');
    const subscriber = Recording.subscribe(atA, taskId);
    await subscriber.task();
    expect(stateName(await cancel(await b.client({ transport }), taskId))).toBe('CANCELED');
    expect(cleaned).toEqual([taskId]);
    expect(await errorName(send(atA, 'more', { taskId }))).toBe('UnsupportedOperationError');
    expect(await errorName(subscribe(atA, taskId))).toBe('UnsupportedOperationError');
    expect((await subscriber.finished()).map(summaryOf)).toEqual(['task INPUT_REQUIRED', 'status CANCELED']);
  });

  test('O44 three cancels at once, of a running, a waiting and a deaf task: all get CANCELED, one event', async () => {
    const over = new Deferred();
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        if (textOf(context.userMessage) === 'ask') return inputRequired(bus, context);
        working(bus, context);
        await (textOf(context.userMessage) === 'deaf' ? over.promise : aborted(context.turn));
      },
      cluster: { turns: { cancelTimeoutMs: 300 } },
    });
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    for (const text of ['work', 'ask', 'deaf']) {
      const { id } = await send(atA, text, { configuration: { returnImmediately: text !== 'ask' } });
      const tasks = await Promise.all([cancel(atA, id), cancel(atB, id), cancel(atB, id)]);
      expect(tasks.map(stateName)).toEqual(['CANCELED', 'CANCELED', 'CANCELED']);
      expect((await statesOf(id)).filter((state) => state === 'CANCELED')).toHaveLength(1);
    }
    over.resolve();
  });

  test('a CANCELED task is returned, an otherwise ended one is TaskNotCancelableError, an unknown one not found', async () => {
    const cleaned: string[] = [];
    const app = await fixture.start({
      execute: (context, bus) =>
        textOf(context.userMessage) === 'ask' ? inputRequired(bus, context) : completed(bus, context),
      cancelTask: (taskId) => void cleaned.push(taskId),
    });
    const client = await app.client({ transport });
    const waiting = await send(client, 'ask');
    const first = await cancel(client, waiting.id);
    expect(await cancel(client, waiting.id)).toEqual(first);
    expect(cleaned).toEqual([waiting.id]);
    const ended = await send(client, 'end');
    const error = await errorOf(cancel(client, ended.id));
    expect([error.name, error.message]).toEqual(['TaskNotCancelableError', expect.stringContaining('COMPLETED')]);
    expect(await errorName(cancel(client, 'no-such-task'))).toBe('TaskNotFoundError');
    expect(await getTask(client, ended.id)).toEqual(ended);
  });

  test('O54 cancel while the holder commits without pause, at it and elsewhere: CANCELED within its bound', async () => {
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        while (!context.turn.signal.aborted) {
          working(bus, context);
          await context.turn.flush();
        }
      },
    });
    const atA = await a.client({ transport });
    for (const canceler of [atA, await b.client({ transport })]) {
      const { id } = await send(atA, 'hello', { configuration: { returnImmediately: true } });
      expect(stateName(await within(cancel(canceler, id), 5_000, 'the cancel'))).toBe('CANCELED');
      expect((await statesOf(id)).at(-1)).toBe('CANCELED');
    }
  });

  test('a Task event with CANCELED from cancelTask ends the task as well', async () => {
    const app = await fixture.start({
      execute: (context, bus) => inputRequired(bus, context),
      cancelTask: (taskId, bus) =>
        bus.publish(AgentEvent.task(taskOf({ taskId, contextId: '' }, TaskState.TASK_STATE_CANCELED))),
    });
    const client = await app.client({ transport });
    const { id, contextId } = await send(client, 'hello');
    const task = await cancel(client, id);
    expect([stateName(task), task.contextId]).toEqual(['CANCELED', contextId]);
    expect(await statesOf(id)).toEqual(['SUBMITTED', 'INPUT_REQUIRED', 'CANCELED']);
  });
});

test('leases: false: a cancel elsewhere reaches the runner by its own follower, and CANCELED stands', async () => {
  const reason = new Deferred<unknown>();
  const [a, b] = await fixture.startTwo({
    execute: async (context, bus) => {
      working(bus, context);
      reason.resolve(await aborted(context.turn));
      completed(bus, context, 'too late');
    },
    cluster: WITHOUT_LEASES,
  });
  const sender = Recording.send(await a.client(), 'hello');
  const { id } = await sender.task();
  expect(stateName(await cancel(await b.client(), id))).toBe('CANCELED');
  await within(reason.promise, 2_000, 'the signal aborts');
  expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status CANCELED');
  expect(await statesOf(id)).toEqual(['SUBMITTED', 'WORKING', 'CANCELED']);
});
