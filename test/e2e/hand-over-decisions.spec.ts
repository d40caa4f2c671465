import {
  type AbandonedTurn,
  EFFECTS_METADATA_KEY,
  type RecoveryDecision,
  ReplicaShutdownError,
} from 'nestjs-a2a-cluster';
import { getTask, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { Deferred, eventually, within } from '../../tools/harness/wait.js';
import {
  agentByAttempt,
  begin,
  DEAD,
  draining,
  ended,
  hang,
  hangsAfterWorking,
  RecoveryFixture,
  statusText,
  sweep,
  UNAWARE,
} from './abandoned-turns.fixture.js';
import type { AgentBehaviour } from './agent-app.fixture.js';
import { aborted, completed, publishStatus, textOf, working } from './agent-events.js';
import { lastTaskId } from '../helpers/task-log.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

const holders = async (): Promise<unknown[]> =>
  (await fixture.database.query('SELECT holder FROM a2a_task_leases')).map(({ holder }) => holder);

describe('A hand-over', () => {
  test('is none where a cancel was asked for: CANCELED, by whom it was asked of in time, and by the sweep', async () => {
    const canceling: string[] = [];
    const agent: AgentBehaviour = {
      execute: async (context, bus) => {
        working(bus, context);
        await aborted(context.turn);
      },
      cancelTask: (taskId) => void canceling.push(taskId),
    };
    const a = await fixture.start({ ...agent, cluster: draining({}, UNAWARE) });
    const b = await fixture.start({ ...agent, cluster: draining() });
    const atB = await b.client();
    const { id } = await begin(await a.client());
    await leases.flagCancel(id);
    await a.close();
    expect(stateName(await getTask(atB, id))).toBe('CANCELED');
    expect(canceling).toEqual([id]);
    await leases.gone();
    const c = await fixture.start({ ...agent, cluster: draining() });
    const other = await begin(await c.client());
    await c.close();
    await leases.flagCancel(other.id);
    expect(await sweep(b)).toMatchObject({ canceled: 1, reExecuted: 0 });
    expect(stateName(await getTask(atB, other.id))).toBe('CANCELED');
  });

  test('is none under policy fail: FAILED, as before', async () => {
    const agent = agentByAttempt(hangsAfterWorking);
    const { atB, id } = await fixture.handedOver(agent, draining({ policy: 'fail' }));
    const task = await getTask(atB, id);
    expect([stateName(task), statusText(task)]).toEqual(['FAILED', expect.stringContaining('shutting down')]);
    expect(await holders()).toEqual([]);
  });

  test.each<[string, RecoveryDecision, string]>([
    ['re-execute', { decision: 're-execute' }, 'COMPLETED'],
    ['fail', { decision: 'fail' }, 'FAILED'],
  ])('is put before a policy that is a function, which says %s', async (_what, decision, state) => {
    const asked: AbandonedTurn[] = [];
    const policy = (turn: AbandonedTurn) => {
      asked.push(turn);
      return decision;
    };
    const agent = agentByAttempt(async (context, bus) => {
      if (agent.runs.length === 1) return hangsAfterWorking(context, bus);
      completed(bus, context);
    });
    const { b, atB, id } = await fixture.handedOver(agent, draining({ policy }));
    await sweep(b);
    const task = await ended(atB, id);
    expect(stateName(task)).toBe(state);
    expect(asked).toMatchObject([{ attempts: 0, lastHolder: null }]);
    if (state === 'FAILED') expect(statusText(task)).toContain('handed over');
  });

  test('of a task that waits for authentication: it waits on, and its client may answer', async () => {
    const agent = agentByAttempt(async (context, bus) => {
      if (context.task) return completed(bus, context);
      publishStatus(bus, context, 8);
      await context.turn.flush();
      await hang();
    });
    const [a, b] = await fixture.startTwo({ ...agent, cluster: draining() });
    const atB = await b.client();
    const [swept, answered] = [await begin(await a.client()), await begin(await a.client())];
    await a.close();
    expect(stateName(await send(atB, 'here it is', { taskId: answered.id }))).toBe('COMPLETED');
    expect(await sweep(b)).toMatchObject({ reExecuted: 0, failed: 0 });
    await leases.gone();
    expect(stateName(await getTask(atB, swept.id))).toBe('AUTH_REQUIRED');
    expect(agent.runs).toHaveLength(3);
  });

  test('with an outside action under way that must not be repeated: FAILED with the evidence, and its end is refused', async () => {
    const [dispatched, finish, refused] = [new Deferred(), new Deferred(), new Deferred<unknown>()];
    let dispatches = 0;
    const [a, b] = await fixture.startTwo({
      cluster: draining(),
      execute: async (context) => {
        const charged = context.turn.effect('charge', { replay: 'never' }, async () => {
          dispatches += 1;
          dispatched.resolve();
          await finish.promise;
        });
        await charged.catch((error: unknown) => refused.resolve(error));
      },
    });
    const sender = begin(await a.client());
    await dispatched.promise;
    await a.close();
    const id = await lastTaskId(fixture.database);
    await sender;
    expect(await leases.find(id)).toMatchObject({ holder: null, attempt: 0 });
    finish.resolve();
    await within(refused.promise, 5_000, 'the end of the action is refused').catch(() => undefined);
    expect(await sweep(b)).toMatchObject({ failed: 1, reExecuted: 0 });
    const task = await getTask(await b.client(), id);
    expect(statusText(task)).toContain("the outside action 'charge' must not be repeated");
    expect(task.status?.message?.metadata?.[EFFECTS_METADATA_KEY]).toMatchObject([{ key: 'charge', attempt: 1 }]);
    expect(dispatches).toBe(1);
  });

  test('of an executor that stops when it is told to, with an error or without', async () => {
    const states: Record<string, string> = {};
    const agent = agentByAttempt(async (context, bus) => {
      const text = textOf(context.userMessage);
      states[text] = states[text] === undefined ? 'first' : 'second';
      if (states[text] === 'second') return completed(bus, context, `${text} done`);
      working(bus, context);
      await aborted(context.turn);
      if (text === 'throws') throw context.turn.signal.reason;
    });
    const [a, b] = await fixture.startTwo({ ...agent, cluster: draining() });
    const atA = await a.client();
    const ids = [];
    for (const text of ['throws', 'returns']) ids.push((await begin(atA, text)).id);
    await a.close();
    expect(await holders()).toEqual([null, null]);
    expect(await sweep(b)).toMatchObject({ claimed: 2, reExecuted: 2 });
    for (const id of ids) expect(statusText(await ended(await b.client(), id))).toMatch(/done$/);
  });

  test('while a replica drains it takes over nothing itself, but ends what is to be ended', async () => {
    const over = new Deferred();
    const agent = agentByAttempt(
      async (context, bus) => {
        if (textOf(context.userMessage) !== 'last') return hangsAfterWorking(context, bus);
        working(bus, context);
        await over.promise;
        completed(bus, context);
      },
      (context, bus) => completed(bus, context),
    );
    const [a, b] = await fixture.startTwo({
      ...agent,
      cluster: draining({ backoffMs: 0 }, { turns: { drainTimeoutMs: 20_000 } }),
    });
    const atB = await b.client();
    await begin(await a.client(), 'last');
    const [abandoned, canceled] = [await begin(atB), await begin(atB)];
    const closing = a.close();
    await leases.abandon(abandoned.id, canceled.id);
    await leases.flagCancel(canceled.id);
    expect(await sweep(a)).toMatchObject({ claimed: 1, canceled: 1 });
    expect(await leases.find(abandoned.id)).toMatchObject({ holder: DEAD, attempt: 1 });
    over.resolve();
    await closing;
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    expect(stateName(await ended(atB, abandoned.id))).toBe('COMPLETED');
  });

  test('a turn that was run again is handed over like any other', async () => {
    const agent = agentByAttempt(hangsAfterWorking, async (context, bus) => {
      if (agent.runs.length === 2) return hangsAfterWorking(context, bus);
      completed(bus, context);
    });
    const options = { ...agent, cluster: draining({ backoffMs: 0 }) };
    const [[a, b], c] = [await fixture.startTwo(options), await fixture.start(options)];
    const { id } = await begin(await a.client());
    await leases.abandon(id);
    await sweep(b);
    await eventually(() => agent.runs.length === 2);
    await b.close();
    expect(await leases.find(id)).toMatchObject({ holder: null, attempt: 1, expired: true });
    await sweep(c);
    expect(stateName(await ended(await c.client(), id))).toBe('COMPLETED');
    expect(agent.runs.map(({ attempt }) => attempt)).toEqual([1, 2, 2]);
  });
});

test('I3 what a handed-over executor says before anybody has claimed its turn is refused all the same', async () => {
  const [resume, refused] = [new Deferred(), new Deferred<unknown>()];
  let resumed = false;
  const { b, atB, id } = await fixture.handedOver({
    execute: async (context, bus) => {
      if (resumed) return completed(bus, context, 'in time');
      working(bus, context);
      await context.turn.flush();
      await resume.promise;
      await context.turn
        .transaction((manager) => manager.query('CREATE TABLE stale (n integer)'))
        .catch((error: unknown) => refused.resolve(error));
    },
  });
  resume.resolve();
  await within(refused.promise, 5_000, 'the transaction is refused');
  expect(await refused.promise).toBeInstanceOf(ReplicaShutdownError);
  expect(await fixture.database.query("SELECT to_regclass('stale') AS name")).toEqual([{ name: null }]);
  resumed = true;
  await sweep(b);
  expect(stateName(await ended(atB, id))).toBe('COMPLETED');
});
