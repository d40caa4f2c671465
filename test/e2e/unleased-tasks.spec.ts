import { jest } from '@jest/globals';
import { VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import { cancel, send } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { Deferred, eventually, within } from '../../tools/harness/wait.js';
import { AgentAppFixture, agentOf, WITHOUT_LEASES } from './agent-app.fixture.js';
import { completed, working } from './agent-events.js';

const fixture = new AgentAppFixture();

/** As if all tasks had not changed for an hour. */
const age = (): Promise<unknown> =>
  fixture.database.query(
    `UPDATE a2a_tasks SET state_since = state_since - interval '1 hour', updated_at = updated_at - interval '1 hour'`,
  );

const ofUnleased = (): string[] => fixture.logger.warnings.filter((text) => text.includes('without a lease'));

afterEach(() => fixture.database.query('TRUNCATE a2a_task_events, a2a_message_receipts, a2a_tasks'));

describe('A replica with leases that starts beside tasks begun without', () => {
  test('B.18 I6 names them in one warning, and they can be canceled', async () => {
    const going = new Deferred();
    const before = await fixture.start({
      cluster: WITHOUT_LEASES,
      execute: async (context, bus) => {
        working(bus, context);
        await going.promise;
      },
    });
    const senders = [1, 2].map(async () => Recording.send(await before.client(), 'hello'));
    const ids = await Promise.all(senders.map(async (sender) => (await (await sender).task()).id));
    const client = await before.client();
    expect(stateName(await cancel(client, ids[1]!))).toBe('CANCELED');
    await age();
    const after = await fixture.start();
    await eventually(() => ofUnleased().length > 0);
    expect(ofUnleased()).toHaveLength(1);
    expect(ofUnleased()[0]).toContain(
      `agent 'default' in a running state without a lease: 1, the oldest of them ${ids[0]}.`,
    );
    expect(ofUnleased()[0]).toMatch(/leases: false.*may still run them.*cancel them/);
    expect(stateName(await cancel(await after.client(), ids[0]!))).toBe('CANCELED');
    going.resolve();
  });

  test('B.18 says nothing of turns under a lease, of tasks of another agent, and of what has changed of late', async () => {
    const going = new Deferred();
    const execute = async (...[context, bus]: Parameters<NonNullable<Parameters<typeof agentOf>[0]['execute']>>) => {
      working(bus, context);
      await going.promise;
      completed(bus, context);
    };
    const apps = [
      await fixture.start({ execute }),
      await fixture.start({ execute, cluster: { ...WITHOUT_LEASES, agentId: 'other' } }),
    ];
    const looks = jest.spyOn(Object.getPrototypeOf(apps[0]!.nest.get(VersionedTaskStore)), 'withoutLease' as never);
    const senders = await Promise.all(apps.map(async (app) => Recording.send(await app.client(), 'hello')));
    await Promise.all(senders.map((sender) => sender.task()));
    await age();
    const late = await fixture.start({ execute, cluster: WITHOUT_LEASES });
    const sender = Recording.send(await late.client(), 'hello');
    const { id } = await sender.task();
    // It streams for an hour: its status is as old as that, its last chunk is not.
    await fixture.database.query(
      `UPDATE a2a_tasks SET state_since = state_since - interval '1 hour' WHERE task_id = $1`,
      [id],
    );
    const before = looks.mock.results.length;
    await fixture.start();
    expect(looks.mock.results.length).toBe(before + 1);
    expect(await looks.mock.results.at(-1)!.value).toEqual([]);
    expect(ofUnleased()).toEqual([]);
    going.resolve();
    await Promise.all([...senders, sender].map((one) => one.finished()));
    looks.mockRestore();
  });

  test('B.18 starts and serves at once, however long the look takes, and outlives one that fails', async () => {
    const probe = await fixture.start();
    const look = new Deferred<never>();
    const looks = jest
      .spyOn(Object.getPrototypeOf(probe.nest.get(VersionedTaskStore)) as VersionedTaskStore, 'withoutLease')
      .mockImplementation(() => look.promise);
    const app = await within(
      fixture.start({ execute: (context, bus) => completed(bus, context) }),
      10_000,
      'the replica starts',
    );
    expect(stateName(await send(await app.client(), 'hello'))).toBe('COMPLETED');
    expect(looks).toHaveBeenCalledTimes(1);
    look.reject(new Error('no rights'));
    await eventually(() => ofUnleased().length > 0);
    expect(ofUnleased()).toEqual(['Tasks without a lease could not be looked for: no rights']);
    looks.mockRestore();
  });
});
