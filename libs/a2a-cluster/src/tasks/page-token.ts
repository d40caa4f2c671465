import { RequestMalformedError } from '@a2a-js/sdk/errors';

/** The last row of a page: where the next one begins. */
export interface PageCursor {
  /** PostgreSQL's own text of the time stamp, with all its digits. */
  stateSince: string;
  taskNo: string;
}

export const encodePageToken = ({ stateSince, taskNo }: PageCursor): string =>
  Buffer.from(`${taskNo}|${stateSince}`).toString('base64url');

/** The cursor in a page token that this library made; anything else is a malformed request. */
export function decodePageToken(token: string): PageCursor {
  const [, taskNo, stateSince] =
    /^(\d{1,18})\|(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?[+-]\d\d(?::\d\d){0,2})$/.exec(
      Buffer.from(token, 'base64url').toString('utf8'),
    ) ?? [];
  if (taskNo === undefined || stateSince === undefined) {
    throw new RequestMalformedError(`pageToken ${JSON.stringify(token.slice(0, 100))} is not one that ListTasks gave.`);
  }
  return { stateSince, taskNo };
}
