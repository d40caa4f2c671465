import type { AgentCard } from '@a2a-js/sdk';
import type { AgentApp, TRANSPORTS } from './agent-app.fixture.js';

export type Transport = (typeof TRANSPORTS)[number];

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  /** The protocol's reason of an error, such as `TASK_NOT_FOUND`; empty where the body is no such error. */
  reason: string;
  /** JSON-RPC's or HTTP's error code. */
  code: number | undefined;
}

export interface RawOptions {
  contentType?: string | null;
  version?: string | null;
  headers?: Record<string, string>;
  path?: string;
}

/** What is sent as it stands, past the client, which would not send it. */
export async function post(
  app: AgentApp,
  transport: Transport,
  body: string | Buffer | undefined,
  { contentType = 'application/json', version = '1.0', headers = {}, path }: RawOptions = {},
): Promise<Answer> {
  const target = path ?? (transport === 'JSONRPC' ? '/a2a/jsonrpc' : '/a2a/rest/message:send');
  const response = await fetch(app.url + target, {
    method: 'POST',
    headers: {
      ...(contentType !== null && { 'content-type': contentType }),
      ...(version !== null && { 'a2a-version': version }),
      ...headers,
    },
    ...(body !== undefined && { body }),
  });
  return answerOf(response);
}

export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const { error } = parsed(text) as { error?: { code?: number; data?: Detail[]; details?: Detail[] } };
  const reason = (error?.data ?? error?.details)?.find((detail) => detail.reason)?.reason ?? '';
  return { status: response.status, headers: response.headers, text, reason, code: error?.code };
}

interface Detail {
  reason?: string;
}

function parsed(text: string): unknown {
  try {
    return (JSON.parse(text) as unknown) ?? {};
  } catch {
    return {};
  }
}

/** A call as its transport puts it: the whole body. */
export function callBody(transport: Transport, method: string, params: unknown): string {
  return JSON.stringify(transport === 'JSONRPC' ? { jsonrpc: '2.0', id: 1, method, params } : params);
}

/** The body of a message with these fields, over a good one. */
export function messageBody(transport: Transport, fields: Record<string, unknown> = {}): string {
  const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }], ...fields };
  return callBody(transport, 'SendMessage', { message });
}

/** The agent card as it is served. */
export async function cardOf(app: AgentApp, path = '/.well-known/agent-card.json'): Promise<AgentCard> {
  const response = await fetch(app.url + path);
  expect([response.status, response.headers.get('content-type')]).toEqual([200, expect.stringContaining('json')]);
  return (await response.json()) as AgentCard;
}

export const urlsOf = (card: AgentCard): string[] => card.supportedInterfaces.map(({ url }) => url);
