import { UnauthenticatedUser } from '@a2a-js/sdk/server';
import { RunningTurns } from '../../libs/a2a-cluster/src/turns/running-turns.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import { promptAgent } from './agents.js';
import { callBody, post } from './raw-requests.js';

const fixture = new AgentAppFixture();

const OPERATIONS = {
  send: ['SendMessage', 'message:send'],
  stream: ['SendStreamingMessage', 'message:stream'],
} as const;

describe.each(TRANSPORTS)('A message that is past the door when the replica begins to drain, over %s', (transport) => {
  test.each(['send', 'stream'] as const)('B8 is answered 503 with Retry-After (%s)', async (how) => {
    const arrived = new Deferred();
    const goOn = new Deferred();
    const app = await fixture.start({
      ...promptAgent,
      cluster: {
        userBuilder: async () => {
          arrived.resolve();
          await goOn.promise;
          return new UnauthenticatedUser();
        },
      },
    });
    const [method, path] = OPERATIONS[how];
    const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] };
    const body = callBody(transport, method, { message });
    const answered = post(app, transport, body, transport === 'JSONRPC' ? {} : { path: `/a2a/rest/${path}` });
    await arrived.promise;
    const closed = app.close();
    await eventually(() => app.nest.get(RunningTurns, { strict: false }).isDraining);
    goOn.resolve();
    const response = await answered;
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
    expect(response.text).toContain('shutting down');
    await closed;
  });
});
