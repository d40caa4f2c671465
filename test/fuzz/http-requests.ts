import fc from 'fast-check';
import { damaged, garbled } from './damaged-json.js';
import type { FuzzedApp } from './fuzzed-app.js';

/** A request as it goes out. */
export interface RawRequest {
  method: string;
  path: string;
  body?: string | Buffer;
  contentType?: string;
  /** Of the protocol; null: none is said, which means 0.3. Default: 1.0. */
  version?: string | null;
}

/** Ids and query values that stand in a URL. */
export const inUrl = fc.oneof(
  fc.constantFrom('@waiting@', '@ended@', '@unknown@', '..', '%00', '%ff', '%E0%A4%A', 'a%2Fb', '__proto__', '*', ':'),
  fc.string({ unit: 'binary', maxLength: 12 }).map((text) => encodeURIComponent(Buffer.from(text).toString())),
  fc.constant('x'.repeat(2_000)),
);

/** What becomes of a good body. */
export const bodyOf = (document: object): fc.Arbitrary<string | Buffer> =>
  fc.oneof({ arbitrary: damaged(document), weight: 4 }, { arbitrary: garbled(damaged(document)), weight: 1 });

/** Sends it, and reads the answer; of a stream that stays open only the beginning. */
async function exchange(
  fuzzed: FuzzedApp,
  { method, path, body, contentType, version = '1.0' }: RawRequest,
): Promise<{ status: number; text: string }> {
  const headers = {
    ...(version !== null && { 'a2a-version': version }),
    ...(contentType !== undefined && { 'content-type': contentType }),
  };
  const sent = typeof body === 'string' ? fuzzed.named(body) : body;
  const response = await fetch(fuzzed.app.url + fuzzed.named(path), {
    method,
    headers,
    ...(method !== 'GET' && sent !== undefined && { body: sent }),
  });
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    return { status: response.status, text: await response.text() };
  }
  const reader = response.body!.getReader();
  const { value } = (await reader.read()) as { value?: Uint8Array };
  await reader.cancel();
  return { status: response.status, text: Buffer.from(value ?? []).toString() };
}

/** An error of the protocol, or a good answer, and nothing of our insides. */
export async function expectAnswered(fuzzed: FuzzedApp, request: RawRequest): Promise<void> {
  fuzzed.fixture.logger.clear();
  const { status, text } = await exchange(fuzzed, request);
  expect(status).toBeLessThan(500);
  expect(text).not.toContain('-32603');
  fuzzed.expectDiscreet(text);
}
