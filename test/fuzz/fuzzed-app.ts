import { jest } from '@jest/globals';
import fc from 'fast-check';
import { type AgentApp, AgentAppFixture, cardWith } from '../e2e/agent-app.fixture.js';
import { withGrpc } from '../e2e/grpc.fixture.js';
import { send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { askingAgent } from '../e2e/agents.js';

/** CI asks the same questions every time; `npm run fuzz` asks new ones for longer. */
export const RUNS = Number(process.env.FUZZ_RUNS ?? 250);
const SEED = process.env.FUZZ_SEED === undefined ? 20_261_130 : Number(process.env.FUZZ_SEED);

/** What no client is to read: stacks, files, SQL, and names of ours. */
const INTERNALS =
  /\\n\s+at |node_modules|typeorm|QueryFailed|a2a_task|SELECT |INSERT |RangeError|TypeError|Maximum call/;

/** The app that takes the blows, anew for each test. Made at the top of a test file. */
export class FuzzedApp {
  app!: AgentApp;
  readonly fixture = new AgentAppFixture();
  private ids: string[] = [];

  constructor() {
    // The SDK warns on the console of every body whose tenant is another than its URL's.
    jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    fc.configureGlobal({ numRuns: RUNS, seed: SEED });
    beforeEach(async () => {
      this.app = await this.fixture.start(
        withGrpc({
          ...askingAgent,
          cluster: {
            agentCard: cardWith({ pushNotifications: true }),
            transports: { bodyLimitBytes: 1_000_000 },
            push: { maxAttempts: 1, timeoutMs: 100 },
            legacyCompat: true,
          },
        }),
      );
      const client = await this.app.client();
      this.ids = [(await send(client, 'ask')).id, (await send(client, 'end')).id];
    });
  }

  /** A text with the ids of a task that waits, of one that has ended, and of none; they are only known when it goes out. */
  named(text: string): string {
    const [waiting, ended] = this.ids;
    const ids = { '@waiting@': waiting!, '@ended@': ended!, '@unknown@': 'no-such-task', '@@': '' };
    return Object.entries(ids).reduce((named, [name, id]) => named.replaceAll(name, id), text);
  }

  /** What was just answered says nothing of our insides, and nothing went wrong in there. */
  expectDiscreet(text: string): void {
    expect(text).not.toMatch(INTERNALS);
    expect(this.fixture.logger.errors).toEqual([]);
  }

  /** After all of it the app works, nothing is half written, and no other object has been changed. */
  async expectSound(): Promise<void> {
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect(stateName(await send(await this.app.client(), 'end'))).toBe('COMPLETED');
    const broken = await this.fixture.database.query(
      `SELECT task_id FROM a2a_tasks AS t
        WHERE version <> (SELECT count(*) FROM a2a_task_events AS e WHERE e.task_no = t.task_no)`,
    );
    expect(broken).toEqual([]);
  }
}
