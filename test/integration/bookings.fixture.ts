import { A2A_CLUSTER_ENTITIES } from 'nestjs-a2a-cluster';
import { EntitySchema } from 'typeorm';
import type { TestDatabase } from '../helpers/database.js';
import { useCluster } from './cluster.fixture.js';

export interface Booking {
  id: string;
  amount: number;
}

/** A table of the app's own, as its executors would write to. */
export const BOOKINGS = new EntitySchema<Booking>({
  name: 'Booking',
  tableName: 'bookings',
  columns: { id: { type: 'text', primary: true }, amount: { type: 'integer' } },
});

/** Bookings with this amount wait in COMMIT for whoever holds the lock. */
export const SLOW = 471_101;

/** A cluster whose app has bookings. */
export function useBookings() {
  const cluster = useCluster({ entities: [...A2A_CLUSTER_ENTITIES, BOOKINGS] });
  beforeAll(async () => {
    await cluster.db.query(`
      CREATE TABLE bookings (id text PRIMARY KEY, amount integer NOT NULL);
      CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF NEW.amount = ${SLOW} THEN PERFORM pg_advisory_xact_lock_shared(${SLOW}); END IF;
        RETURN NULL;
      END $$;
      CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON bookings DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slow_commit()`);
  });
  afterEach(() => cluster.db.query('TRUNCATE bookings'));
  return cluster;
}

/** What is committed, as anyone sees it. */
export async function booked(db: TestDatabase): Promise<string[]> {
  return (await db.query<Booking>('SELECT id FROM bookings ORDER BY id')).map(({ id }) => id);
}
