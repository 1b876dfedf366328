"""Side-by-side measurements of Poolwise and of the packages a user could choose instead."""
