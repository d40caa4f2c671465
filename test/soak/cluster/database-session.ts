import pg from 'pg';

const TRIES = 200;
const AGAIN_MS = 100;

/** A session of the run's own with the database. */
export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'chaos observer' });
  // A session that breaks is noticed by the next question.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Runs the work in a session of its own. Waits for the database where that is away. */
export async function inSession<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connectEventually(url);
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function connectEventually(url: string): Promise<pg.Client> {
  for (let left = TRIES; ; left -= 1) {
    try {
      return await connect(url);
    } catch (error) {
      if (left === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}
