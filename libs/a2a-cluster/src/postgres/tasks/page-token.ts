import { RequestMalformedError } from '@a2a-js/sdk/errors';

/** The last row of a page: where the next one begins. */
export interface PageCursor {
  /** When its status was stored, in microseconds since 1970: all the digits that the database has. */
  stateSinceUs: string;
  taskNo: string;
}

export const encodePageToken = ({ stateSinceUs, taskNo }: PageCursor): string =>
  Buffer.from(`${taskNo}.${stateSinceUs}`).toString('base64url');

/** The cursor in a page token that this library made; anything else is a malformed request. */
export function decodePageToken(token: string): PageCursor {
  const text = Buffer.from(token, 'base64url').toString('utf8');
  const [, taskNo, stateSinceUs] = /^(\d{1,18})\.(\d{1,17})$/.exec(text) ?? [];
  if (taskNo === undefined || stateSinceUs === undefined) {
    throw new RequestMalformedError(`pageToken ${JSON.stringify(token.slice(0, 100))} is not one that ListTasks gave.`);
  }
  return { stateSinceUs, taskNo };
}
