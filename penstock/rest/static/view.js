// The view library, bound to its templates, and the pieces that all pages use.
import { h, render, Component } from './vendor/preact.mjs';
import htm from './vendor/htm.mjs';

export { render, Component };
export const html = htm.bind(h);

export function table(caption, columns, rows) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table><caption>${caption}</caption>
    <thead><tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.length === 0 ? html`<tr><td colspan=${columns.length} class="quiet">none</td></tr>` : rows}</tbody></table></div>`;
}

export const facts = (pairs) => html`<dl class="facts">${pairs.map(([name, value]) => html`<dt>${name}</dt><dd>${value ?? '–'}</dd>`)}</dl>`;

export const card = (title, content) => html`<section class="card"><h3>${title}</h3>${content}</section>`;

export const tile = (name, value, note) => html`<div class="tile"><dt>${name}</dt><dd>${value}${note ? html`<small>${note}</small>` : ''}</dd></div>`;

const GOOD = new Set(['RUNNING', 'FINISHED', 'COMPLETED']), BAD = new Set(['FAILED', 'FAILING', 'LOST']);

export const badge = (status) => html`<span class="badge ${GOOD.has(status) ? 'good' : BAD.has(status) ? 'bad' : 'warn'}">${status}</span>`;
