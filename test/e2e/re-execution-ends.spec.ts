import { jest } from '@jest/globals';
import { Module, Scope } from '@nestjs/common';
import { RECOVERY_METADATA_KEY, StoreUnavailableError } from 'nestjs-a2a-cluster';
import { LeaseStore } from 'nestjs-a2a-cluster/stores';
import { Heartbeat } from '../../libs/a2a-cluster/src/leases/heartbeat.js';
import { cancel, errorName, getTask, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { eventually } from '../../tools/harness/wait.js';
import {
  artifactsOf,
  begin,
  DEAD,
  agentByAttempt,
  ended,
  hang,
  hangsAfterWorking,
  historyOf,
  RecoveryFixture,
  reExecuting,
  sweep,
} from './abandoned-turns.fixture.js';
import { type AgentApp, agentOf } from './agent-app.fixture.js';
import {
  agentMessage,
  artifactOf,
  completed,
  inputRequired,
  publishArtifact,
  publishStatus,
  publishTask,
  textOf,
  textPart,
  working,
} from './agent-events.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

describe('The executor of a later attempt', () => {
  test('may begin with a Task, as the SDK has it: the message stays once, the history as it is', async () => {
    const agent = agentByAttempt(hangsAfterWorking, (context, bus) => {
      publishTask(bus, context, 1, { history: [context.userMessage] });
      publishTask(bus, context, 2, { artifacts: [artifactOf('out', textPart('whole'))] });
      publishArtifact(bus, context, artifactOf('out', textPart('more')), true);
      completed(bus, context);
    });
    const { b, atB, id } = await fixture.abandoned(agent, { text: 'hello' });
    await sweep(b);
    const task = await ended(atB, id);
    expect([historyOf(task), artifactsOf(task)]).toEqual([['hello'], { out: ['whole', 'more'] }]);
  });

  test.each(['new task', 'follow-up'])(
    'may answer with a message: the %s that an attempt before it set going ends with that',
    async (kind) => {
      const agent = agentByAttempt(
        async (context, bus) => {
          if (textOf(context.userMessage) === 'ask') return inputRequired(bus, context);
          await hangsAfterWorking(context, bus);
        },
        (context, bus) => bus.publish({ kind: 'message', data: agentMessage(context, 'that is all') }),
      );
      const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting() });
      const atA = await a.client();
      const asked = kind === 'follow-up' ? await send(atA, 'ask') : undefined;
      const { id } = await begin(atA, 'work', asked?.id);
      await eventually(async () => stateName(await getTask(atA, id)) === 'WORKING');
      await leases.abandon(id);
      await sweep(b);
      const task = await ended(atA, id);
      expect([stateName(task), textOf(task.status?.message)]).toEqual(['COMPLETED', 'that is all']);
      await leases.gone();
    },
  );

  test('returns without a word: FAILED, or on with the waiting where nothing was said before either', async () => {
    const agent = agentByAttempt(
      async (context, bus) => {
        if (textOf(context.userMessage) === 'ask') return inputRequired(bus, context);
        if (textOf(context.userMessage) === 'say') working(bus, context);
        await context.turn.flush();
        await hang();
      },
      () => undefined,
    );
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting() });
    const atA = await a.client();
    for (const [text, state] of [
      ['say', 'FAILED'],
      ['nothing', 'INPUT_REQUIRED'],
    ] as const) {
      const { id } = await send(atA, 'ask');
      const answer = begin(atA, text, id);
      await eventually(async () => (await leases.find(id)) !== undefined);
      if (text === 'say') await eventually(async () => stateName(await getTask(atA, id)) === 'WORKING');
      await leases.abandon(id);
      expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
      expect(stateName(await answer)).toBe(text === 'say' ? 'INPUT_REQUIRED' : state);
      await leases.gone();
      expect(stateName(await getTask(atA, id))).toBe(state);
    }
  });

  test.each(['throws', 'asks', 'wants authentication', 'takes too long', 'is canceled'])(
    '%s: as in a first attempt',
    async (what) => {
      const agent = agentByAttempt(hangsAfterWorking, async (context, bus) => {
        switch (what) {
          case 'throws':
            throw new Error('no luck');
          case 'asks':
            return inputRequired(bus, context, 'which?');
          case 'wants authentication':
            return publishStatus(bus, context, 8);
          default:
            working(bus, context);
            await context.turn.flush();
            await hang();
        }
      });
      const [a, b] = await fixture.startTwo({
        ...agent,
        cluster: reExecuting({}, { turns: { cancelTimeoutMs: 200 } }),
      });
      const late = await fixture.start({
        ...agent,
        cluster: reExecuting({}, { turns: { maxTurnDurationMs: 200 } }),
      });
      const atA = await a.client();
      const { id } = await begin(atA, 'work');
      await leases.abandon(id);
      await sweep(what === 'takes too long' ? late : b);
      if (what === 'is canceled') expect(stateName(await cancel(atA, id))).toBe('CANCELED');
      await leases.gone();
      const task = await getTask(atA, id);
      const states = { throws: 'FAILED', asks: 'INPUT_REQUIRED', 'wants authentication': 'AUTH_REQUIRED' };
      expect(stateName(task)).toBe(
        { ...states, 'takes too long': 'FAILED', 'is canceled': 'CANCELED' }[what as 'throws'],
      );
      if (what === 'throws') expect(textOf(task.status?.message)).toContain('no luck');
      expect(agent.runs).toHaveLength(2);
    },
  );
});

describe('O35 attempts', () => {
  test('rise when a run begins; once they are used up the task is FAILED and says so', async () => {
    const agent = agentByAttempt(hangsAfterWorking, hangsAfterWorking, hangsAfterWorking, hangsAfterWorking);
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting({ maxAttempts: 3 }) });
    const atA = await a.client();
    const { id } = await begin(atA, 'poison');
    const { turnId } = (await leases.find(id))!;
    for (const [attempt, app] of [
      [2, b],
      [3, a],
    ] as const) {
      await leases.abandon(id);
      expect(await sweep(app)).toMatchObject({ claimed: 1, reExecuted: 1 });
      expect(await leases.find(id)).toMatchObject({ attempt, turnId, expired: false });
      await eventually(() => agent.runs.length === attempt);
    }
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 0, failed: 1 });
    const task = await getTask(atA, id);
    expect([stateName(task), historyOf(task)[0]]).toEqual(['FAILED', 'poison']);
    expect(textOf(task.status?.message)).toContain('It was run 3 times, and is not run again (sweeper.maxAttempts).');
    expect(textOf(task.status?.message)).toContain(DEAD);
    expect(task.status?.message?.metadata?.[RECOVERY_METADATA_KEY]).toEqual({
      lastHolder: DEAD,
      attempts: 3,
      lastHeartbeat: expect.stringMatching(/^\d{4}-.*Z$/) as string,
    });
    expect(agent.runs.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    await leases.gone();
  });

  test('an executor that cannot be made uses them up as well: its lease is not kept alive for ever', async () => {
    let made = 0;
    const Agent = agentOf(agentByAttempt(hangsAfterWorking));
    const factory = {
      provide: 'AGENT',
      scope: Scope.REQUEST,
      useFactory: () => {
        made += 1;
        if (made > 1) throw new Error('no more agents');
        return new Agent();
      },
    };
    @Module({ providers: [factory], exports: ['AGENT'] })
    class AgentModule {}
    const { b, atA, id } = await fixture.abandoned(
      {},
      { cluster: reExecuting({ maxAttempts: 2 }, { executor: 'AGENT', imports: [AgentModule] }) },
    );
    expect(await sweep(b)).toMatchObject({ claimed: 1 });
    await eventually(() => made === 2 && fixture.logger.errors.length > 0);
    expect(fixture.logger.errors[0]).toMatch(/could not be run again: .*no more agents/s);
    await eventually(() => b.nest.get(Heartbeat, { strict: false }).generations.length === 0);
    expect(await leases.find(id)).toMatchObject({ attempt: 2 });
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ failed: 1 });
    expect(stateName(await getTask(atA, id))).toBe('FAILED');
  });
});

describe('B12 attempts', () => {
  const reset = (): Error => new StoreUnavailableError('read ECONNRESET');
  const storeOf = (app: AgentApp): LeaseStore => app.nest.get(LeaseStore, { strict: false });

  afterEach(() => jest.restoreAllMocks());

  /** A turn whose replica died in its first run, where two are allowed. */
  async function abandonedOnce() {
    const agent = agentByAttempt(hangsAfterWorking, (context, bus) => completed(bus, context));
    const { a, b, id } = await fixture.abandoned(agent, {
      cluster: reExecuting({ maxAttempts: 2 }),
      once: ({ id, atA }) => eventually(async () => stateName(await getTask(atA, id)) === 'WORKING'),
    });
    return { agent, a, b, id };
  }

  test('are counted once, however often the answer to that is lost', async () => {
    const { agent, b, id } = await abandonedOnce();
    const store = storeOf(b);
    const real = store.begin.bind(store);
    let lost = 0;
    const counting = jest.spyOn(store, 'begin').mockImplementation(async (generation) => {
      const counted = await real(generation);
      if ((lost += 1) <= 3) throw reset();
      return counted;
    });
    agent.runs.length = 0;
    expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 1 });
    expect(stateName(await ended(await b.client(), id))).toBe('COMPLETED');
    expect([agent.runs.map(({ attempt }) => attempt), counting.mock.calls.length]).toEqual([[2], 4]);
  });

  test('a run whose lease is gone when it is to be counted does not begin', async () => {
    const { agent, b, id } = await abandonedOnce();
    const store = storeOf(b);
    const real = store.begin.bind(store);
    jest.spyOn(store, 'begin').mockImplementation(async (generation) => {
      await leases.abandon(id);
      await store.claim({ holder: 'another', ttlMs: 60_000, limit: 1 });
      return real(generation);
    });
    agent.runs.length = 0;
    expect(await sweep(b)).toMatchObject({ claimed: 1, lost: 1 });
    expect(agent.runs).toEqual([]);
    expect(await leases.find(id)).toMatchObject({ holder: 'another', attempt: 1 });
    jest.restoreAllMocks();
    await leases.expire(id);
    await sweep(b);
    expect(stateName(await ended(await b.client(), id))).toBe('COMPLETED');
  });
});

describe('A follow-up and a cancel', () => {
  test('a follow-up that finds the lease expired starts the turn again and is refused; a cancel then ends it', async () => {
    const agent = agentByAttempt(hangsAfterWorking, hangsAfterWorking);
    const { atA, atB, id } = await fixture.abandoned(agent, {
      cluster: reExecuting({}, { turns: { cancelTimeoutMs: 300 } }),
      text: 'hello',
    });
    expect(await errorName(send(atB, 'more', { taskId: id }))).toBe('UnsupportedOperationError');
    await eventually(() => agent.runs.length === 2);
    expect(await leases.find(id)).toMatchObject({ attempt: 2, expired: false });
    expect(historyOf(await getTask(atB, id))).toEqual(['hello']);
    expect(stateName(await cancel(atA, id))).toBe('CANCELED');
    expect(agent.runs.map(({ attempt }) => attempt)).toEqual([1, 2]);
    await leases.gone();
  });

  test.each(['the cancel itself', 'a sweep after the canceling replica died'])(
    'O51 an abandoned turn that is to be canceled is not run again: CANCELED by %s',
    async (who) => {
      const agent = agentByAttempt(hangsAfterWorking);
      const { b, atB, id } = await fixture.abandoned(agent);
      if (who === 'the cancel itself') expect(stateName(await cancel(atB, id))).toBe('CANCELED');
      else {
        await fixture.database.query('UPDATE a2a_task_leases SET cancel_requested_at = clock_timestamp()');
        expect(await sweep(b)).toMatchObject({ canceled: 1, reExecuted: 0 });
      }
      expect(stateName(await getTask(atB, id))).toBe('CANCELED');
      expect(agent.runs).toHaveLength(1);
    },
  );
});
