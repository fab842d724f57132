// The state of the job.
import { Component, empty } from './view.js';

export class StatePage extends Component {
  render() { return empty('No state is known yet', 'Its size is known after the first checkpoint.'); }
}
