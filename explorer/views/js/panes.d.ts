// The module that views/register.py makes of the registered views: tab -> what makes its pane.

export interface MadePane {
  node: HTMLElement;
  aside?: HTMLElement | null; // what stands beside the tabs
  refresh?: () => void; // the selection or the pass is another one
  resized?: () => void;
  hovered?: () => void;
}

export const PANES: Record<string, (app: any, tab: any) => MadePane | Promise<MadePane>>;
