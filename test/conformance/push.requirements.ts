import { randomUUID } from 'node:crypto';
import { PushReceiver } from '../helpers/push-receiver.js';
import type { Served } from './set-ups.fixture.js';

interface Config {
  id: string;
  taskId: string;
  url: string;
  token?: string;
}

/** Push notification configs, and what their receivers are told. */
export function pushRequirements(served: Served): void {
  const call = <Result = Config>(verb: string, params: Record<string, string>) =>
    served.client.call<Result>(`${verb}TaskPushNotificationConfig${verb === 'List' ? 's' : ''}`, params);
  const url = 'http://127.0.0.1:9/hook'; // nobody listens there, and nothing is sent to a task that only waits

  async function created(): Promise<Config> {
    const { id: taskId } = await served.client.task('tck-input-required');
    const { result } = await call('Create', { taskId, id: `config-${randomUUID()}`, url, token: 'secret' });
    return result;
  }

  describe('A push notification config', () => {
    test('PUSH-CREATE-001, -002, PUSH-GET-001 is answered as it was created, and kept', async () => {
      const config = await created();
      expect(config).toMatchObject({ url, token: 'secret' });
      for (let n = 0; n < 3; n += 1) {
        expect((await call('Get', { taskId: config.taskId, id: config.id })).result).toEqual(config);
      }
    });

    test('PUSH-GET-002 that there is not is an error', async () => {
      const { taskId } = await created();
      expect((await call('Get', { taskId, id: randomUUID() })).error?.code).toEqual(expect.any(Number));
    });

    test('PUSH-LIST-001 is listed with all others of its task, and with no other', async () => {
      const [one, elsewhere] = [await created(), await created()];
      const other = (await call('Create', { taskId: one.taskId, id: 'other', url })).result;
      const { configs } = (await call<{ configs: Config[] }>('List', { taskId: one.taskId })).result;
      const byId = (list: Config[]): Config[] => list.sort((a, b) => a.id.localeCompare(b.id));
      expect(byId(configs)).toEqual(byId([one, other]));
      expect(configs).not.toContainEqual(elsewhere);
    });

    test('PUSH-DEL-001, -002 is gone when it is deleted, which may be done again', async () => {
      const { taskId, id } = await created();
      for (let n = 0; n < 2; n += 1) {
        const { error, status } = await call('Delete', { taskId, id });
        expect(error).toBeUndefined();
        expect([0, 200, 204]).toContain(status); // gRPC's OK, and HTTP's
      }
      expect((await call('Get', { taskId, id })).error?.code).toEqual(expect.any(Number));
      expect((await call<{ configs?: Config[] }>('List', { taskId })).result.configs ?? []).toEqual([]);
    });
  });

  test('PUSH-DELIVER-001, -002, -003 the receiver is told every event, with its credentials', async () => {
    const receiver = await PushReceiver.start();
    const taskPushNotificationConfig = {
      url: receiver.url(),
      authentication: { scheme: 'Bearer', credentials: 'letmein' },
    };
    const configuration = { taskPushNotificationConfig };
    const { id: taskId } = await served.client.task('tck-input-required', {}, { configuration });
    await served.client.task('tck-artifact-text', { taskId });
    await receiver.until(() => receiver.seen().includes('status COMPLETED'));
    expect(receiver.received.map(({ headers }) => headers.authorization)).toEqual(
      receiver.received.map(() => 'Bearer letmein'),
    );
    const kinds = receiver.received.map(({ body }) => Object.keys(body));
    expect(
      kinds.every(([kind, ...more]) => /^(task|statusUpdate|artifactUpdate)$/.test(kind!) && more.length === 0),
    ).toBe(true);
    expect(kinds).toContainEqual(['artifactUpdate']);
  });
}
