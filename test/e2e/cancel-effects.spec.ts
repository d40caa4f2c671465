import { currentTurn, TaskCanceledError } from 'nestjs-a2a-cluster';
import { cancel, send } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { AgentAppFixture } from './agent-app.fixture.js';
import { aborted, inputRequired, working } from './agent-events.js';

const fixture = new AgentAppFixture();

/** Keys and states of all effects, in order. */
const ledger = () =>
  fixture.database.query("SELECT key, state FROM a2a_task_effects WHERE key <> '' ORDER BY dispatched_at");

afterEach(() => fixture.database.query('DELETE FROM a2a_task_effects'));

describe('Effects of a task that is canceled', () => {
  test('I7 a running turn: the executor dispatches nothing more, cancelTask may clean up', async () => {
    const calls: string[] = [];
    const late = new Deferred<unknown>();
    const app = await fixture.start({
      execute: async (context, bus) => {
        const { turn } = context;
        working(bus, context);
        await turn.effect('reserve', { replay: 'never' }, () => void calls.push('reserve'));
        await aborted(turn);
        await turn
          .effect('charge', { replay: 'never' }, () => void calls.push('charge'))
          .catch((error: unknown) => late.resolve(error));
      },
      cancelTask: async () => {
        const turn = currentTurn();
        expect(turn.signal.aborted).toBe(false);
        await late.promise;
        await turn.effect('refund', { replay: 'never' }, () => void calls.push('refund'));
        await turn.transaction((manager) => manager.query('SELECT 1'), { key: 'note' });
      },
    });
    const client = await app.client();
    const sender = Recording.send(client, 'hello');
    const { id } = await sender.task();
    await eventually(() => calls.length > 0);
    expect(stateName(await cancel(client, id))).toBe('CANCELED');
    expect(await late.promise).toBeInstanceOf(TaskCanceledError);
    expect(calls).toEqual(['reserve', 'refund']);
    expect(await ledger()).toEqual(['reserve', 'refund', 'note'].map((key) => ({ key, state: 'succeeded' })));
  });

  test('I7 a waiting task: cancelTask runs as a turn of its own, and may clean up', async () => {
    const calls: string[] = [];
    const app = await fixture.start({
      execute: (context, bus) => inputRequired(bus, context, 'go on?'),
      cancelTask: async () => {
        await currentTurn().effect('refund', { replay: 'never' }, () => void calls.push('refund'));
      },
    });
    const client = await app.client();
    const { id } = await send(client, 'hello');
    expect(stateName(await cancel(client, id))).toBe('CANCELED');
    expect(calls).toEqual(['refund']);
    expect(await ledger()).toEqual([{ key: 'refund', state: 'succeeded' }]);
  });

  test('I2 I6 a cancel that is heard while FAILED waits for an action under way: it cleans up under the lease', async () => {
    const [begun, acted, cleanedUp] = [new Deferred(), new Deferred(), new Deferred<boolean>()];
    const leases = () => fixture.database.query('SELECT generation FROM a2a_task_leases');
    const app = await fixture.start({
      execute: async (context, bus) => {
        working(bus, context);
        await context.turn.flush();
        const act = (): Promise<void> => {
          begun.resolve();
          return acted.promise;
        };
        void context.turn.effect('charge', { replay: 'never' }, act);
        await begun.promise;
        throw new Error('gave up');
      },
      cancelTask: async () => {
        acted.resolve();
        const isGone = eventually(async () => (await leases()).length === 0, { timeoutMs: 500 });
        cleanedUp.resolve(
          await isGone.then(
            () => false,
            () => true,
          ),
        );
      },
    });
    const client = await app.client();
    const { id } = await Recording.send(client, 'hello').task();
    await begun.promise;
    expect(stateName(await cancel(client, id))).toBe('CANCELED');
    expect(await cleanedUp.promise).toBe(true);
    await eventually(async () => (await leases()).length === 0);
  });

  test('I7 a cancel that is asked for while the executor is about to act: nothing is dispatched', async () => {
    const asked = new Deferred();
    const flagged = new Deferred();
    const outcome = new Deferred<unknown>();
    let calls = 0;
    const app = await fixture.start({
      execute: async (context, bus) => {
        working(bus, context);
        await context.turn.flush();
        asked.resolve();
        await flagged.promise;
        const effect = context.turn.effect('charge', { replay: 'never' }, () => void (calls += 1));
        outcome.resolve(await effect.catch((error: unknown) => error));
      },
    });
    const sender = Recording.send(await app.client(), 'hello');
    await asked.promise;
    // As a canceling replica does, whose wake-up has not arrived yet.
    await fixture.database.query('UPDATE a2a_task_leases SET cancel_requested_at = clock_timestamp()');
    flagged.resolve();
    expect(await outcome.promise).toBeInstanceOf(TaskCanceledError);
    expect(calls).toBe(0);
    await sender.finished();
    expect(await ledger()).toEqual([]);
  });
});
