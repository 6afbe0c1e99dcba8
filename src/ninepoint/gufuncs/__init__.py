"""Functions of core arrays, applied to stacks of them: `@gufunc`."""
